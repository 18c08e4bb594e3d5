"""What would settle a difference that is not settled: more seeds, or more test rows."""

import math

from baton.verdict.difference import Difference, together
from baton.verdict.seeds import LEVEL
from baton.verdict.student import quantile

MOST = 1000  # seeds; who needs more needs another question


def seeds_needed(found: Difference) -> int | None:
    """The fewest seeds a side with which the interval would exclude 0, were mean and spread to stay as they are.

    None: not even MOST would do, or one seed says nothing about others.
    """
    if not math.isfinite(found.seed_error) or not found.mean:
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
    error = found.seed_error * math.sqrt(found.seeds / seeds)
    freedom = found.freedom * (seeds - 1) / max(1, found.seeds - 1)
    whole = math.hypot(error, found.rows.error if found.rows else 0.0)
    return abs(found.mean) > quantile(LEVEL, together(error, freedom, found.rows)) * whole


def rows_needed(found: Difference) -> int | None:
    """Test rows of which even endless seeds would need as many; None where those there are would do."""
    if found.rows is None or not found.mean:
        return None
    wanted = abs(found.mean) / quantile(LEVEL, math.inf)
    return None if found.rows.error < wanted else math.ceil(found.rows.n * (found.rows.error / wanted) ** 2)
