"""Verdicts in plain sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from baton.verdict.difference import Difference
from baton.verdict.needed import MOST, rows_needed, seeds_needed


def amount(x: float, unit: str) -> str:
    """`1.50 points`, `0.40 decades`, `0.0123`."""
    return f"{number(x, unit)} {unit}".strip()


def number(x: float, unit: str) -> str:
    """Two digits of points and decades, four of everything else."""
    return f"{x:.2f}" if unit else f"{x:.4f}" if abs(x) >= 1e-3 or not x else f"{x:.1e}"


def spelled(found: Difference, unit: str) -> str:
    """`95 % interval 0.42 to 2.60; 5 seeds, paired; 360 test rows`."""
    parts = [many(found.seeds, "seed") + (", paired" if found.paired and found.seeds > 1 else "")]
    if not found.why:
        alone = " of this pair alone" if found.pairs > 1 else ""
        parts.insert(0, f"95 % interval{alone} {number(found.low, unit)} to {number(found.high, unit)}")
        if found.pairs > 1:
            parts.insert(1, f"p {chance(found.sure)} among {found.pairs} pairs")
    if found.rows:
        parts.append(f"{found.rows.n:,} test rows")
    return "; ".join(parts)


def chance(p: float) -> str:
    """`0.031`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def pair(first: str, second: str, found: Difference, unit: str) -> str:
    """Which of two is ahead, or why nobody is; the first is the one with the better mean."""
    if found.clear:
        return f"{first} is ahead of {second} by {amount(found.mean, unit)} ({spelled(found, unit)})"
    if not found.mean:
        return f"no winner: {first} and {second} came to the same ({found.why or spelled(found, unit)})"
    better = f"{first} is {amount(found.mean, unit)} better than {second}"
    if found.why:
        return f"no winner: {better}, but {found.why}"
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


def compared(panels: int, pairs: int) -> str:
    """Over what the word ahead is corrected, and what chance alone would do; nothing for a single pair."""
    if pairs < 2:
        return ""
    groups = many(panels, "group")
    if pairs == panels:
        rule = f"{groups}, one pair each"
    else:
        rule = f"ahead and behind follow p values corrected over all pairs of a group (Holm; {pairs:,} in {groups})"
    chance = f"; where nothing differs, at most about {0.05 * panels:.2g} of them would name one by chance"
    return rule + (chance if panels > 1 else "")


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def many(n: int, what: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"
