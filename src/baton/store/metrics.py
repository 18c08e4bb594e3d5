"""Metrics as a table: from what was measured to metrics.csv, and back."""

import csv
from bisect import bisect_left
from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.store.columns import BYTES, EXACT, HELD, MEASURED, REAL, further
from baton.store.files import Damaged
from baton.store.history import History

Metrics = dict[str, NDArray[np.float64]]  # column -> [rows]; nan where a cell is empty


class Tables(NamedTuple):
    """The metrics of all lanes, by round."""

    rounds: list[int]  # at which anything was taken
    taken: dict[str, tuple[list[int], NDArray[np.float64]]]  # metric -> places of its rounds in these, values [L, ...]


def tables(history: History) -> Tables:
    """What was measured, to be written lane by lane."""
    rounds = sorted({r for rows in history.values() for r, _ in rows})
    place = {r: i for i, r in enumerate(rounds)}
    taken = {name: ([place[r] for r, _ in rows], np.stack([v for _, v in rows], 1)) for name, rows in history.items()}
    return Tables(rounds, taken)


def to_csv(found: Tables, lane: int, diverged: int) -> bytes:
    """Rows by round; empty where a metric was not taken or cannot be told, nan in the last row of one that diverged."""
    more = further(found.taken)
    header = [*MEASURED, *(name for name in (*HELD, *EXACT, *BYTES, *REAL) if name in found.taken), *more]
    columns = [list(map(str, found.rounds))]
    for name in header:
        places, values = found.taken.get(name, ([], np.zeros((lane + 1, 0))))
        every = map(repr, values[lane].tolist())  # the fewest digits that give a number back
        cells = ["" if cell == "nan" else cell for cell in every]  # no sign of divergence, whose rows are cut off below
        if len(places) < len(found.rounds):
            known, cells = cells, [""] * len(found.rounds)
            for place, cell in zip(places, known, strict=True):
                cells[place] = cell
        columns.append(cells)
    if diverged >= 0:
        end = bisect_left(found.rounds, diverged)
        last = ["nan" if name in found.taken else "" for name in header]
        columns = [[*column[:end], cell] for column, cell in zip(columns, [str(diverged), *last], strict=True)]
    lines = map(",".join, zip(*columns, strict=True))
    return "\n".join([",".join(["round", *header]), *lines, ""]).encode()


def from_csv(data: bytes) -> Metrics:
    """What to_csv wrote."""
    try:
        header, *rows = csv.reader(data.decode().splitlines())
        if any(len(row) != len(header) for row in rows) or len(set(header)) != len(header):
            raise ValueError
        return {name: np.array([float(row[i] or "nan") for row in rows]) for i, name in enumerate(header)}
    except (ValueError, csv.Error):
        raise Damaged("metrics.csv is damaged") from None


def ended(data: bytes) -> dict[str, float]:
    """The last row of what to_csv wrote: metric -> value, of those that were taken there and are finite."""
    lines = data.decode(errors="replace").split("\n")
    cells = zip(lines[0].split(","), lines[-2].split(",") if len(lines) > 2 else [], strict=False)
    try:
        found = {name: float(cell) for name, cell in cells if cell and name != "round"}
    except ValueError:
        raise Damaged("metrics.csv is damaged") from None
    return {name: value for name, value in found.items() if isfinite(value)}


def history_of(runs: Sequence[Metrics]) -> History:
    """Metrics of several runs as those of lanes: by round, nan where a run has none."""
    found = {}
    for metric in [name for name in runs[0] if name != "round" and all(name in run for run in runs)]:
        series = [dict(zip(run["round"].astype(int).tolist(), run[metric], strict=True)) for run in runs]
        taken = sorted({r for each in series for r, value in each.items() if not np.isnan(value)})
        if taken:
            found[metric] = [(r, np.array([each.get(r, np.nan) for each in series])) for r in taken]
    return History(found)
