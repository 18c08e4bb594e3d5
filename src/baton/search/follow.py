"""A search and the store: scores of the runs that are there, what to train next, what was found."""

import json
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput, nearest
from baton.nolinks import make_folder
from baton.search.rules import MISSING, Beside, Choice, Missing, Read, asked, cells, scored, search
from baton.setting import Setting
from baton.store import Store, write
from baton.study import Study
from baton.study.measured import averaged, worth


def reader(store: Store, metric: str) -> Read:
    """Scores from the store: a run that is there, or the beginning of a longer one."""
    return Reader(store, metric)


class Reader:
    """Scores from the store, and what runs say beside them."""

    def __init__(self, store: Store, metric: str) -> None:
        self._store, self._metric, self._every = store, metric, store.kin()
        self._known: dict[tuple[str, str], Series] = {}

    def __call__(self, setting: Setting, last: int) -> float | Missing | None:
        """The mean of a run's last evaluations."""
        runs = self._runs(setting)
        if not runs:
            return MISSING
        found = self._series(runs[min(runs)], self._metric)
        kept = _ends(found, setting, self._metric, last)
        if (
            (found.diverged is not None and found.diverged <= setting.rounds)
            or not len(kept)
            or not np.isfinite(kept).all()
        ):
            return None
        return float(kept.mean())

    def beside(self, setting: Setting, last: int) -> Beside:
        """What such a run says beside that."""
        runs = self._runs(setting)
        run_id = runs[min(runs)]
        held, metrics = self._metric.startswith("validation_"), self._store.read(run_id).metrics
        loss = "validation_loss" if held else "test_loss"
        known = loss in metrics and not np.isnan(metrics[loss]).all()
        mean = float(_ends(self._series(run_id, loss), setting, loss, last).mean()) if known else nan
        own = self._series(run_id, self._metric)
        rows = metrics.get("validation_rows")
        row = worth(self._metric) / float(rows[0]) if held and rows is not None else 0.0
        return Beside(mean, row, own.values[own.rounds <= setting.rounds].tolist())

    def _runs(self, setting: Setting) -> dict[int, str]:
        every = self._every.get(setting.kin, {})
        return {rounds: run for rounds, run in every.items() if rounds >= setting.rounds}

    def _series(self, run_id: str, metric: str) -> "Series":
        if (run_id, metric) not in self._known:
            self._known[run_id, metric] = self._read(run_id, metric)
        return self._known[run_id, metric]

    def _read(self, run_id: str, metric: str) -> "Series":
        run = self._store.read(run_id)
        if metric not in run.metrics:
            known = nearest(metric, [name for name in run.metrics if name != "round"])
            raise BadInput(f"tune: run {run_id} has no {metric!r} to choose by; {known}")
        found = run.metrics[metric]
        taken = ~np.isnan(found)
        if not taken.any() and run.diverged is None:
            right = "a larger share, or [tune] by = 'loss'"
            raise BadInput(
                f"tune: got no {metric!r} from the rows of run {run_id}, which cannot tell it; expected {right}"
            )
        return Series(run.metrics["round"][taken], found[taken], run.diverged)


class Series(NamedTuple):
    """A metric of a run."""

    rounds: NDArray[np.float64]  # at which it was taken
    values: NDArray[np.float64]
    diverged: int | None


def _ends(found: Series, setting: Setting, metric: str, last: int) -> NDArray[np.float64]:
    """The evaluations that are averaged, of a run or of its beginning."""
    kept = (found.rounds > 0) & (found.rounds <= setting.rounds)
    return found.values[kept][-averaged(setting, metric, last) :]


def choices(study: Study, store: Store) -> list[Choice]:
    """What a search found, as far as the store goes."""
    read = Reader(store, scored(study))
    return [search(study, cell, read, read.beside) for cell in cells(study)]


def wanted(found: Sequence[Choice]) -> list[Setting]:
    """The runs that a search and its winners come down to; the rest of the grid is not needed."""
    runs = [s for choice in found for s in (*choice.trained, *choice.missing, *choice.chosen)]
    return list({s.key: s for s in runs}.values())


def missing(found: Sequence[Choice], store: Store) -> list[Setting]:
    """What to train next: the next stage of every cell together; after the last, the winners on all seeds."""
    searched = [s for choice in found for s in choice.missing]
    return searched or [s for s in wanted(found) if not store.complete(s.run_id)]


def next_of(study: Study, store: Store) -> list[Setting]:
    """What a study still has to train: what its search wants next, or all of it where nothing is searched."""
    if study.tune is None:
        return [s for s in study.settings if not store.complete(s.run_id)]
    return missing(choices(study, store), store)


def save(study: Study, store: Store, found: Sequence[Choice]) -> Path:
    """runs/tuned/<study>-<method>.json: the chosen values, the whole grid, the reasons."""
    tune = asked(study).tune
    path = make_folder(store.root, "tuned") / f"{study.name}-{tune.method}.json"
    table = {
        "study": study.name,
        "method": tune.method,
        "tune": tune.model_dump(),
        "steps": sum(choice.spent for choice in found),
        "steps_of_full_grid": sum(choice.full for choice in found),
        "cells": [_cell(choice) for choice in found],
    }
    write(path, (json.dumps(table, indent=1) + "\n").encode())
    return path


def _cell(choice: Choice) -> dict[str, Any]:
    return {
        "group": choice.cell.group,
        "fields": choice.cell.fields,
        "chosen": choice.best,
        "runs": [s.run_id for s in choice.chosen],
        "stages": [stage._asdict() for stage in choice.stages],
        "rises": choice.rises,
        "steps": choice.spent,
        "steps_of_full_grid": choice.full,
    }
