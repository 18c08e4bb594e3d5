"""What the schedules of the learning rate have in common: the first rounds, and checks of their options."""

from baton.errors import BadInput


def risen(round: int, warmup: int) -> float | None:
    """The factor while the rate rises linearly, 1 / warmup at first and 1 in round warmup - 1; then None."""
    return (round + 1) / warmup if round < warmup else None


def check(name: str, option: str, value: float, right: bool, what: str) -> None:
    """Refuse an option's value in one line."""
    if not right:
        raise BadInput(f"lr_schedule: {name} has {option}={value}; {what} is right")


def check_warmup(name: str, warmup: int) -> None:
    """Rounds, 0 or more."""
    check(name, "warmup", warmup, warmup >= 0, "0 (none) or more rounds")
