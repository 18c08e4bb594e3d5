"""Every site's metrics at every evaluation: from what was measured to sites.csv, and back."""

import csv
import io
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.store.columns import SITE
from baton.store.files import Damaged
from baton.store.history import History
from baton.store.metrics import Tables

NAME = "sites.csv"
Float = NDArray[np.float32]


class Measured(NamedTuple):
    """Which sites are measured, of all lanes."""

    names: tuple[str, ...]  # [k]
    rows: NDArray[np.int64]  # [L, k] test rows of each
    how: str  # which rows are a site's, in words


class SiteTable(NamedTuple):
    """A run's sites.csv."""

    rounds: list[int]
    names: list[str]  # [k]
    rows: list[int]  # [k] test rows of each
    values: dict[str, Float]  # metric -> [rounds, k]; nan where a site's rows cannot tell


def to_csv(found: Tables, lane: int, diverged: int, of: Measured) -> bytes:
    """A line a round and site, up to where a run diverged; empty where a site's rows cannot tell."""
    own = {name.removeprefix(SITE): found.taken[name] for name in sorted(found.taken) if name.startswith(SITE)}
    labels = list(own)
    lines = [",".join(["round", "site", "n", *labels])]
    heads = [f"{_quoted(name)},{rows}" for name, rows in zip(of.names, of.rows[lane].tolist(), strict=True)]
    places = own[labels[0]][0] if labels else []
    rounds = [found.rounds[place] for place in places]
    for i, round in enumerate(rounds[: bisect_left(rounds, diverged) if diverged >= 0 else None]):
        cells = [np.where(np.isnan(v[lane, i]), "", v[lane, i].astype(np.float32).astype(str)) for _, v in own.values()]
        lines += [",".join((str(round), head, *row)) for head, *row in zip(heads, *cells, strict=True)]
    return "\n".join([*lines, ""]).encode()


def _quoted(name: str) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([name])
    return text.getvalue()


def from_csv(data: bytes) -> SiteTable:
    """What to_csv wrote."""
    try:
        header, *lines = csv.reader(io.StringIO(data.decode(), newline=""))
        labels = header[3:]
        rounds = list(dict.fromkeys(int(line[0]) for line in lines))
        k = len(lines) // max(1, len(rounds))
        first = lines[:k]
        whole = [(int(line[0]), line[1], line[2]) for line in lines]
        if header[:3] != ["round", "site", "n"] or len(set(labels)) != len(labels):
            raise ValueError
        if whole != [(r, line[1], line[2]) for r in rounds for line in first]:
            raise ValueError
        cells = np.array([[cell or "nan" for cell in line[3:]] for line in lines], dtype=np.float32)
        cells = cells.reshape(len(rounds), k, len(labels))
        values = {label: cells[:, :, i] for i, label in enumerate(labels)}
        return SiteTable(rounds, [line[1] for line in first], [int(line[2]) for line in first], values)
    except (ValueError, IndexError, csv.Error):
        raise Damaged(f"{NAME} is damaged") from None


def joined(history: History, runs: Sequence[SiteTable | None]) -> History:
    """The history of lanes with the sites of as many runs; without, where one of them has none or others."""
    known = [run for run in runs if run is not None]
    if not known or len(known) < len(runs) or any(run.names != known[0].names for run in known):
        return history
    found = {name: history[name] for name in history}
    for label in known[0].values:
        rounds = sorted({r for run in known for r in run.rounds})
        none = np.full(len(known[0].names), np.nan, np.float32)
        every = [dict(zip(run.rounds, run.values.get(label, ()), strict=False)) for run in known]
        found[SITE + label] = [(r, np.stack([each.get(r, none) for each in every])) for r in rounds]
    return History(found)
