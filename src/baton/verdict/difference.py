"""One line less another: how far apart, how sure of it, by seeds and test rows together."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from baton.verdict.rows import Rows
from baton.verdict.seeds import LEVEL
from baton.verdict.student import chance, quantile


class Difference(NamedTuple):
    """A mean difference with its two independent errors; above 0 where the first is better."""

    mean: float
    seeds: int  # pairs of runs, or runs of the side that has fewer
    paired: bool  # over seeds that both sides share
    seed_error: float  # standard error over seeds; inf where there is one
    freedom: float  # of that error
    rows: Rows | None = None  # of the test set; None: there is none, or it is not known

    @property
    def error(self) -> float:
        """Of both together."""
        return math.hypot(self.seed_error, self.rows.error if self.rows else 0.0)

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        return quantile(LEVEL, self._freedom) * self.error if math.isfinite(self.error) else math.inf

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The interval's upper end."""
        return self.mean + self.half

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return abs(self.mean) > self.half

    @property
    def p(self) -> float:
        """How likely so large a difference is where there is none; 1 where nothing is known."""
        if not math.isfinite(self.error):
            return 1.0
        if not self.error:
            return 0.0 if self.mean else 1.0
        return chance(self.mean / self.error, self._freedom)

    @property
    def _freedom(self) -> float:
        return together(self.seed_error, self.freedom, self.rows)

    def turned(self) -> "Difference":
        """The second less the first."""
        return self._replace(mean=-self.mean)


def together(seed_error: float, freedom: float, rows: Rows | None) -> float:
    """Degrees of freedom of the two errors' sum, after Welch and Satterthwaite."""
    if rows is None or not rows.error:
        return freedom
    seeds, tests = seed_error**2, rows.error**2
    return (seeds + tests) ** 2 / (seeds**2 / freedom + tests**2 / max(1, rows.n - 1))


def difference(
    one: Mapping[int, float], other: Mapping[int, float], sign: int = 1, rows: Rows | None = None
) -> Difference:
    """One less the other, {seed: score} each; sign -1 where less is better.

    Paired over the seeds that both have, where these are two or more; else Welch's, over all of each.
    """
    shared = sorted(one.keys() & other.keys())
    if len(shared) >= 2 or (shared and min(len(one), len(other)) < 2):
        apart = sign * np.array([one[seed] - other[seed] for seed in shared])
        error = float(apart.std(ddof=1)) / math.sqrt(len(shared)) if len(shared) > 1 else math.inf
        return Difference(float(apart.mean()), len(shared), True, error, max(1, len(shared) - 1), rows)
    sides = [np.array(list(side.values())) for side in (one, other)]
    mean, fewest = sign * float(sides[0].mean() - sides[1].mean()), min(map(len, sides))
    if fewest < 2:
        return Difference(mean, fewest, False, math.inf, 1.0, rows)
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    below = sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    freedom = sum(parts) ** 2 / below if below else float(sum(map(len, sides)) - 2)
    return Difference(mean, fewest, False, math.sqrt(sum(parts)), freedom, rows)
