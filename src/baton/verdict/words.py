"""Verdicts in plain sentences."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from baton.verdict.difference import Difference
from baton.verdict.needed import MOST, rows_needed, seeds_needed
from baton.verdict.several import Several


def amount(x: float, unit: str) -> str:
    """`1.50 points`, `0.40 decades`, `0.0123`."""
    return f"{number(x, unit)} {unit}".strip()


def number(x: float, unit: str) -> str:
    """Two digits of points and decades, four of everything else."""
    return f"{x:.2f}" if unit else f"{x:.4f}" if abs(x) >= 1e-3 or not x else f"{x:.1e}"


def spelled(found: Difference, unit: str) -> str:
    """`95 % interval 0.42 to 2.60; 5 seeds, paired; 360 test rows`."""
    parts = [many(found.seeds, "seed") + (", paired" if found.paired and found.seeds > 1 else "")]
    if math.isfinite(found.half):
        parts.insert(0, f"95 % interval {number(found.low, unit)} to {number(found.high, unit)}")
    if found.rows:
        parts.append(f"{found.rows.n:,} test rows")
    return "; ".join(parts)


def pair(first: str, second: str, found: Difference, unit: str) -> str:
    """Which of two is ahead, or why nobody is; the first is the one with the better mean."""
    if not found.mean:
        return f"no winner: {first} and {second} came to the same ({spelled(found, unit)})"
    if found.clear:
        return f"{first} is ahead of {second} by {amount(found.mean, unit)} ({spelled(found, unit)})"
    better = f"{first} is {amount(found.mean, unit)} better than {second}"
    if not math.isfinite(found.half):
        return f"no winner: {better}, but with one seed there is no interval to judge it by"
    return f"no winner: {better}, which may be chance ({spelled(found, unit)}); {settles(found)}"


def settles(found: Difference) -> str:
    """What would settle it, were mean and spread to stay as they are."""
    seeds, rows = seeds_needed(found), rows_needed(found)
    if rows:
        more = "" if found.rows and found.rows.paired else " at most"
        return f"no number of seeds would settle it on so few test rows, about {rows:,}{more} might"
    return f"about {seeds:,} seeds would settle it" if seeds else f"not even {MOST:,} seeds would settle it"


def best(
    ranked: Sequence[Any], names: Mapping[Any, str], apart: Mapping[tuple[Any, Any], Difference], unit: str
) -> str:
    """Of several lines, the best first: who is ahead of all others, or why nobody is."""
    first, *others = ranked
    if len(others) == 1:
        return pair(names[first], names[others[0]], apart[first, others[0]], unit)
    level = [line for line in others if not apart[first, line].clear]
    if not level:
        second = apart[first, others[0]]
        next_ = f"of {names[others[0]]} by {amount(second.mean, unit)} ({spelled(second, unit)})"
        return f"{names[first]} is ahead of all {len(others)} others, {next_}"
    worst = [line for line in others if line not in level]
    told = pair(names[first], names[level[0]], apart[first, level[0]], unit)
    also = f"; {listed([names[line] for line in level[1:]])} cannot be told from it either" if level[1:] else ""
    behind = f"; {listed([names[line] for line in worst])} {'is' if len(worst) == 1 else 'are'} behind" if worst else ""
    return told + also + behind


def compared(found: Several) -> str:
    """How many comparisons were made, and what chance alone would do; nothing for a single one."""
    if found.made < 2:
        return ""
    by_chance = f"where nothing differs about {found.chance:.2g} would by chance"
    return (
        f"{found.made} comparisons were made, each at 95 %: {_differ(found.clear)}, {by_chance}; "
        f"after Holm's correction {_differ(found.holm)}"
    )


def _differ(n: int) -> str:
    return f"{n or 'none'} {'differs' if n < 2 else 'differ'}"


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def many(n: int, what: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"
