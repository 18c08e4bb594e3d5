"""One tidy table: a row a run and evaluation; the setting, the round, every metric, and how the run ended."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.export.choice import Choice
from baton.setting import Setting
from baton.shown import without_folders
from baton.store import Run
from baton.store.columns import METRICS, further

FIELDS = tuple(Setting.model_fields)


def columns(choice: Choice) -> list[str]:
    """Every metric that any of the runs may have, in one order: the usual ones, then what was asked for."""
    more = {name for run in choice.settings for name in choice.store.columns(run)}
    return [*METRICS, *further(more)]


def names(metrics: Sequence[str]) -> list[str]:
    """The columns of the table."""
    return ["run", *FIELDS, "round", *metrics, "complete", "diverged"]


def fields(setting: Setting) -> dict[str, Any]:
    """A run's setting as others are shown it: of files outside the store the names alone."""
    return {name: without_folders(x) for name, x in setting.model_dump().items()}


def beside(out: Path) -> Path:
    """Where the table of sites goes: runs.csv -> runs-sites.csv."""
    return out.with_name(f"{out.stem}-sites{out.suffix}")


class OfSites(NamedTuple):
    """A run's sites as columns of a table: a row a round, site and metric."""

    round: list[int]
    site: list[str]
    n: list[int]
    metric: list[str]
    value: list[float]  # nan: its rows cannot tell


def of_sites(choice: Choice, run: str) -> OfSites | None:
    """None where they were not measured."""
    found = choice.store.sites(run) if choice.store.complete(run) else None
    if found is None:
        return None
    made, k = OfSites([], [], [], [], []), len(found.names)
    for i, round in enumerate(found.rounds):
        for metric, table in found.values.items():
            made.round.extend([round] * k)
            made.site.extend(found.names)
            made.n.extend(found.rows)
            made.metric.extend([metric] * k)
            made.value.extend(table[i].tolist())
    return made


def metric(run: Run, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A metric's values and where there is none; nan itself stands only in the row a run diverged at."""
    rounds = run.metrics["round"]
    values = run.metrics.get(name, np.full(len(rounds), np.nan))
    empty = np.isnan(values)
    if not empty.all():
        empty &= rounds != run.diverged
    return values, empty


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A file to write; it takes its own name only once it is whole."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".part.{os.getpid()}")  # no part of its name: TensorBoard reads what is called so
    try:
        yield temporary
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
