"""How many points of a curve the page holds: more than a screen shows, and few enough to open quickly."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from baton.report.bands import Array, Band
from baton.report.sheets import Sheet

MEANS, MORE = 1000, 300  # points of a curve, of a seed's or another value's: more than a screen shows
NUMBERS = 250_000  # of each kind on a page, about: past that, curves are thinned further
LEAST = 60  # points that a curve keeps however many there are


class Room(NamedTuple):
    """How many points a curve may have."""

    means: int
    more: int


def room(studies: Sequence[Sequence[Sheet]]) -> Room:
    """So many that a page of all these figures stays small enough to open quickly."""
    sheets = [sheet for own in studies for sheet in own if sheet.kind == "curves"]
    curves = [c for sheet in sheets for _ in sheet.metrics for panel in sheet.panels for c in panel.curves.values()]
    more = sum(len(c.drawn) + len(c.runs) + len(c.begun) for c in curves)
    each = NUMBERS // max(1, 3 * len(curves)), NUMBERS // max(1, more)
    return Room(min(MEANS, max(LEAST, each[0])), min(MORE, max(LEAST, each[1])))


class Shared:
    """Rounds at which curves are drawn, each list once."""

    def __init__(self) -> None:
        self.arrays: list[list[float]] = []
        self.every = 1  # evaluations a point of a mean curve stands for
        self._known: dict[bytes, int] = {}

    def thin(self, band: Band, most: int) -> tuple[int, Band]:
        """Every so many evaluations, the last one always; and where its rounds are in the list."""
        count = len(band.rounds)
        every = step(count, most)
        kept = np.unique(np.append(np.arange(0, count, every), count - 1)) if count else np.arange(0)
        thinned = Band(*(x[kept] for x in band))
        key = thinned.rounds.tobytes()
        if key not in self._known:
            self._known[key] = len(self.arrays)
            self.arrays.append(short(thinned.rounds))
        return self._known[key], thinned


def step(count: int, most: int) -> int:
    """One of so many evaluations is kept."""
    return max(1, -(-(count - 1) // max(1, most - 1)))


def short(x: Array) -> list[float]:
    """Six digits are more than a screen shows."""
    return [int(v) if v == int(v) and abs(v) < 1e15 else float(f"{v:.6g}") for v in x.tolist()]
