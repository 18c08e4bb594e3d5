"""A constant as it was found, and what may be said about it."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

EXACT = "exact"  # up to rounding
BOUND = "bound"  # holds for every x, and may be larger than it need be
ESTIMATE = "estimate"  # of a quantity that is one number, such as zeta_*^2, with its interval or standard error
LOCAL = "local estimate"  # along the points of one trajectory: the assumption asks for all x, and may need more
UNDEFINED = "not defined"

Tell = Callable[[str, int, int], None]  # (what is being measured, steps done, of so many)


class Constant(NamedTuple):
    """One of the assumptions' constants."""

    value: float | None  # None: not defined
    kind: str
    low: float | None = None  # an interval that holds it
    high: float | None = None
    error: float | None = None  # standard error, where clients or minibatches were sampled
    note: str = ""


def silent(what: str, done: int, steps: int) -> None:
    """Nobody is told."""


def mean(each: Tensor, of: int) -> tuple[float, float | None]:
    """The mean over clients [N] drawn without replacement from `of`, and its standard error; none if all were there."""
    count = len(each)
    if count == of:
        return float(each.mean()), None
    if count < 2:
        return float(each.mean()), float("inf")
    return float(each.mean()), float(each.std() * ((1 - count / of) / count) ** 0.5)
