"""The mean over seeds and how far it may be off."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baton.verdict.student import quantile

LEVEL = 0.95


class Interval(NamedTuple):
    """A mean over seeds, and half the width of its 95 % interval (t); infinite where there is one seed."""

    mean: float
    std: float  # over seeds, with n - 1; nan for one
    half: float
    seeds: int

    @property
    def low(self) -> float:
        """Its lower end; the mean itself where there is no interval."""
        return self.mean - self.half if math.isfinite(self.half) else self.mean

    @property
    def high(self) -> float:
        """Its upper end."""
        return self.mean + self.half if math.isfinite(self.half) else self.mean


def interval(scores: Sequence[float]) -> Interval:
    """Of one score a seed."""
    n, found = len(scores), np.asarray(scores, dtype=np.float64)
    if n < 2:
        return Interval(float(found.mean()) if n else math.nan, math.nan, math.inf, n)
    std = float(found.std(ddof=1))
    return Interval(float(found.mean()), std, quantile(LEVEL, n - 1) * std / math.sqrt(n), n)
