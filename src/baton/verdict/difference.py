"""One line less another: how far apart, how sure of it, by seeds and test rows together."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baton.verdict.rows import RowErrors, Rows, row_error
from baton.verdict.seeds import LEVEL
from baton.verdict.several import adjusted
from baton.verdict.student import Error, chance, half_width

ONE_SEED = "with one seed there is no interval to judge it by"
SAME = "the two never differ on these test rows"


class Difference(NamedTuple):
    """A mean difference with its independent errors; above 0 where the first is better."""

    mean: float
    seeds: int  # pairs of runs, or runs of the side that has fewer
    paired: bool  # over seeds that both sides share
    seed_errors: tuple[Error, ...]  # over seeds: of the pairs, or of each side; () where a side has one
    rows: Rows | None = None  # of the test set; None: the metric rests on none
    unknown: str = ""  # why there is no interval, and so no winner
    pairs: int = 1  # of the panel: so many comparisons are made at once
    corrected: float | None = None  # p after Holm's correction over them; None: there is one pair alone

    @property
    def seed_error(self) -> float:
        """Standard error over seeds; inf where a side has one."""
        return math.hypot(*(error for error, _ in self.seed_errors)) if self.seed_errors else math.inf

    @property
    def errors(self) -> tuple[Error, ...]:
        """Of seeds and rows."""
        return (*self.seed_errors, (self.rows.error, self.rows.freedom)) if self.rows else self.seed_errors

    @property
    def error(self) -> float:
        """Of both together; inf where there is no interval."""
        return math.hypot(*(error for error, _ in self.errors)) if not self.why else math.inf

    @property
    def why(self) -> str:
        """Why there is no interval; "" where there is one."""
        return self.unknown or (ONE_SEED if not self.seed_errors else SAME if self.rows and not self.rows.error else "")

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval of this pair alone; inf where there is none."""
        return math.inf if self.why else half_width(LEVEL, self.errors)

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """The interval's upper end."""
        return self.mean + self.half

    @property
    def p(self) -> float:
        """How likely so large a difference is where there is none, of this pair alone; 1 where there is no interval."""
        return 1.0 if self.why else chance(self.mean, self.errors)

    @property
    def clear(self) -> bool:
        """Whether one is ahead: by the corrected p, where several pairs are compared."""
        return not self.why and bool(self.mean) and self.sure <= 1 - LEVEL

    @property
    def sure(self) -> float:
        """The p that decides: after Holm's correction, where several pairs are compared."""
        return self.p if self.corrected is None else self.corrected

    def turned(self) -> "Difference":
        """The second less the first."""
        return self._replace(mean=-self.mean)


Apart = Mapping[tuple[Any, Any], Difference]  # every two lines of a panel


def together(found: Apart) -> dict[tuple[Any, Any], Difference]:
    """All pairs of a panel, each with its p corrected for all of them (Holm): the best was chosen by the same data."""
    chances = adjusted([d.p for d in found.values()])
    return {
        key: d._replace(pairs=len(found), corrected=p if len(found) > 1 else None)
        for (key, d), p in zip(found.items(), chances, strict=True)
    }


def difference(
    one: Mapping[int, float],
    other: Mapping[int, float],
    sign: int = 1,
    rows: Rows | tuple[Mapping[int, RowErrors], Mapping[int, RowErrors]] | None = None,
    unknown: str = "",
) -> Difference:
    """One less the other, {seed: score} each; sign -1 where less is better.

    Paired over the seeds that both have, where these are two or more; else each side's own. rows: what the test rows
    leave open, or each run's own part in it, by seed; unknown: why there is no interval.
    """
    shared = sorted(one.keys() & other.keys())
    paired = len(shared) >= 2 or (bool(shared) and min(len(one), len(other)) < 2)
    seeds = (shared, shared) if paired else (sorted(one), sorted(other))
    sides = [np.array([side[seed] for seed in own]) for side, own in zip((one, other), seeds, strict=True)]
    if rows is not None and not isinstance(rows, Rows):
        each = [[side[seed] for seed in own] for side, own in zip(rows, seeds, strict=True)]
        rows = row_error(*each, paired=paired)
    mean = sign * float((sides[0] - sides[1]).mean() if paired else sides[0].mean() - sides[1].mean())
    fewest = min(map(len, sides))
    errors = _seed_errors([sides[0] - sides[1]] if paired else sides) if fewest > 1 else ()
    return Difference(mean, fewest, paired, errors, rows, unknown)


def _seed_errors(scores: Sequence[np.ndarray]) -> tuple[Error, ...]:
    return tuple((float(x.std(ddof=1)) / math.sqrt(len(x)), float(len(x) - 1)) for x in scores)
