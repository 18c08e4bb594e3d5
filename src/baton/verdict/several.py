"""Many comparisons at once: some differ by chance."""

from collections.abc import Sequence

from baton.verdict.seeds import LEVEL


def adjusted(chances: Sequence[float]) -> list[float]:
    """Return these p values as Holm corrects them for each other: one below 0.05 is so among all of them."""
    found, highest = [1.0] * len(chances), 0.0
    for nth, i in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        highest = max(highest, min(1.0, (len(chances) - nth) * chances[i]))
        found[i] = highest
    return found


def holm(chances: Sequence[float], level: float = 1 - LEVEL) -> list[bool]:
    """Which of these p values stay below the level together, by Holm's step-down rule."""
    return [p <= level for p in adjusted(chances)]
