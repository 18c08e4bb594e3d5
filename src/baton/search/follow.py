"""A search and the store: scores of the runs that are there, what to train next, what was found."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from baton.errors import BadInput, nearest
from baton.search.rules import MISSING, Choice, Missing, Read, asked, cells, scored, search
from baton.setting import Setting
from baton.store import Store, write
from baton.study import Study
from baton.study.measured import averaged


def reader(store: Store, metric: str) -> Read:
    """Scores from the store: a run that is there, or the beginning of a longer one."""
    every = store.kin()

    @cache
    def series(run_id: str) -> tuple[Any, Any, int | None]:
        run = store.read(run_id)
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
        return run.metrics["round"][taken], found[taken], run.diverged

    def read(setting: Setting, last: int) -> float | Missing | None:
        runs = {rounds: run for rounds, run in every.get(setting.kin, {}).items() if rounds >= setting.rounds}
        if not runs:
            return MISSING
        rounds, values, diverged = series(runs[min(runs)])
        kept = values[(rounds > 0) & (rounds <= setting.rounds)][-averaged(setting, metric, last) :]
        if (diverged is not None and diverged <= setting.rounds) or not len(kept) or not np.isfinite(kept).all():
            return None
        return float(kept.mean())

    return read


def choices(study: Study, store: Store) -> list[Choice]:
    """What a search found, as far as the store goes."""
    read = reader(store, scored(study))
    return [search(study, cell, read) for cell in cells(study)]


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
    path = store.root / "tuned" / f"{study.name}-{tune.method}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
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
        "steps": choice.spent,
        "steps_of_full_grid": choice.full,
    }
