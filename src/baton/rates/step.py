"""The rate falls in steps (StepLR)."""

from baton.rates.base import check, check_warmup, risen


def step(round: int, *, every: int, factor: float = 0.1, warmup: int = 0) -> float:
    """Multiplied by `factor` after every `every` rounds, counted from the end of the warmup."""
    check("step", "every", every, every >= 1, "at least 1 round")
    check("step", "factor", factor, 0 < factor <= 1, "0 < factor <= 1")
    check_warmup("step", warmup)
    return factor ** ((round - warmup) // every) if (rising := risen(round, warmup)) is None else rising
