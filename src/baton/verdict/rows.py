"""What the size of a test set allows: other test rows from the same source would have given other accuracies.

Everything is in points, 100 times a share, as accuracies are.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Right = NDArray[np.bool_]  # [seeds, n] whether each final model answers each test row rightly


class Rows(NamedTuple):
    """The standard error that a test set leaves in a difference of two accuracies."""

    n: int  # test rows
    error: float  # points
    paired: bool  # from both sides' answers, row by row; else at most this, were they independent


def sampling_error(accuracy: float, count: int) -> float:
    """Of one accuracy: sqrt(p (1 - p) / n), p with one right and one wrong row more, so that 100 % has an error too."""
    p = (accuracy / 100 * count + 1) / (count + 2)
    return 100 * math.sqrt(p * (1 - p) / count)


def bounded(one: float, other: float, count: int) -> Rows:
    """Of a difference, known from the accuracies alone: as if the two erred independently of each other.

    On the same rows models mostly err together, so that the true error is smaller.
    """
    return Rows(count, math.hypot(sampling_error(one, count), sampling_error(other, count)), False)


def answered(one: Right, other: Right) -> Rows:
    """Of a difference, from the answers to the same rows, as McNemar has it, seeds averaged.

    A row is worth D_i, the mean over seeds of 1 where one is right less the same of the other; the mean of D_i has the
    variance Var(D) / n. Two rows more, half a +1, half a -1 and one 0, keep it above 0 where few rows differ (Agresti
    and Min's adjustment).
    """
    count = one.shape[1]
    worth = one.mean(0) - other.mean(0)  # [n]
    square = (float(np.square(worth).sum()) + 1) / (count + 2)
    variance = (square - float(worth.mean()) ** 2) / (count + 2)
    return Rows(count, 100 * math.sqrt(max(0.0, variance)), True)
