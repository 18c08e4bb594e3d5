"""The paper's: one learning rate in all rounds."""

from baton.rates.base import check_warmup, risen


def constant(round: int, *, warmup: int = 0) -> float:
    """One learning rate in all rounds, after those in which it rises."""
    check_warmup("constant", warmup)
    return 1.0 if (rising := risen(round, warmup)) is None else rising
