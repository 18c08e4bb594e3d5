"""The rate falls along half a cosine (CosineAnnealingLR)."""

from math import cos, pi

from baton.errors import BadInput
from baton.rates.base import check, check_warmup, risen


def cosine(round: int, *, over: int | None = None, floor: float = 0.0, warmup: int = 0) -> float:
    """From 1 at the end of the warmup to `floor` in round `over`, which counts from the run's start; there it stays.

    `over` left out is the setting's R, and then part of the setting: a shorter run would fall faster, and is not the
    beginning of a longer one. PyTorch's T_max is over - warmup; its rate would rise again after that.
    """
    check_warmup("cosine", warmup)
    check("cosine", "floor", floor, 0 <= floor <= 1, "0 <= floor <= 1")
    if over is None:
        raise BadInput("lr_schedule: cosine needs over, the round in which it ends, as in cosine:over=100")
    check("cosine", "over", over, over > warmup, f"more than warmup={warmup}")
    if (rising := risen(round, warmup)) is not None:
        return rising
    way = min(1.0, (round - warmup) / (over - warmup))
    return floor + (1 - floor) * (1 + cos(pi * way)) / 2
