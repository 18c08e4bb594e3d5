"""What would settle a difference that is not settled: more seeds, or more test rows."""

import math

from baton.verdict.difference import Difference
from baton.verdict.seeds import LEVEL
from baton.verdict.student import half_width, quantile

MOST = 1000  # seeds; who needs more needs another question


def level(found: Difference) -> float:
    """Of the interval that has to exclude 0, for it to stand among all pairs of its panel."""
    return 1 - (1 - LEVEL) / found.pairs


def seeds_needed(found: Difference) -> int | None:
    """The fewest seeds a side with which it would be clear, were mean and spread to stay as they are.

    None: not even MOST would do, or one seed says nothing about others.
    """
    if found.why or not found.mean:
        return None
    enough = [n for n in (1 << k for k in range(1, 11)) if n <= MOST and _settled(found, n)] or [MOST]
    low, high = enough[0] // 2, enough[0]
    if not _settled(found, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle >= 2 and _settled(found, middle) else (middle, high)
    return high


def _settled(found: Difference, seeds: int) -> bool:
    scaled = [
        (error * math.sqrt(found.seeds / seeds), freedom * (seeds - 1) / max(1, found.seeds - 1))
        for error, freedom in found.seed_errors
    ]
    rows = [(found.rows.error, found.rows.freedom)] if found.rows else []
    return abs(found.mean) > half_width(level(found), [*scaled, *rows])


def rows_needed(found: Difference) -> int | None:
    """Test rows of which even endless seeds would need as many; None where those there are would do."""
    if found.why or found.rows is None or not found.mean:
        return None
    wanted = abs(found.mean) / quantile(level(found), math.inf)
    return None if found.rows.error < wanted else math.ceil(found.rows.n * (found.rows.error / wanted) ** 2)
