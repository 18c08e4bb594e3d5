"""Many comparisons at once: some differ by chance."""

from collections.abc import Sequence
from typing import NamedTuple

from baton.verdict.difference import Difference
from baton.verdict.seeds import LEVEL


class Several(NamedTuple):
    """How many were made, how many differ, and how many of these would by chance."""

    made: int
    clear: int
    chance: float  # expected to differ where none does
    holm: int  # that differ after Holm's correction


def several(found: Sequence[Difference]) -> Several:
    """Of all comparisons of a study that have an interval."""
    return Several(len(found), sum(d.clear for d in found), (1 - LEVEL) * len(found), sum(holm([d.p for d in found])))


def holm(chances: Sequence[float], level: float = 1 - LEVEL) -> list[bool]:
    """Which of these p values stay below the level together, by Holm's step-down rule."""
    kept, held = [False] * len(chances), True
    for nth, i in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        held = held and chances[i] <= level / (len(chances) - nth)
        kept[i] = held
    return kept
