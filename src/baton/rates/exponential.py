"""The rate falls by the same factor each round (ExponentialLR)."""

from baton.rates.base import check, check_warmup, risen


def exponential(round: int, *, factor: float = 0.99, warmup: int = 0) -> float:
    """Multiplied by `factor` after every round, counted from the end of the warmup."""
    check("exponential", "factor", factor, 0 < factor <= 1, "0 < factor <= 1")
    check_warmup("exponential", warmup)
    return factor ** (round - warmup) if (rising := risen(round, warmup)) is None else rising
