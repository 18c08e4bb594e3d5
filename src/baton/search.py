"""`baton tune`: train what a search asks for, stage by stage, then its winners on the other seeds."""

from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import Any

import numpy as np

from baton.setting import Setting
from baton.store import Store
from baton.study import Study
from baton.sweep import Progress
from baton.tuning import MISSING, Choice, Missing, Read, cells, search

Train = Callable[[Sequence[Setting]], Generator[Progress, None, None]]


def reader(store: Store, metric: str) -> Read:
    """Scores from the store: a run that is there, or the beginning of a longer one."""
    every = store.kin()

    @cache
    def series(run_id: str) -> tuple[Any, Any, int | None]:
        run = store.read(run_id)
        found = run.metrics.get(metric, np.full_like(run.metrics["round"], np.nan))
        taken = ~np.isnan(found)
        return run.metrics["round"][taken], found[taken], run.diverged

    def read(setting: Setting, last: int) -> float | Missing | None:
        runs = {rounds: run for rounds, run in every.get(setting.kin, {}).items() if rounds >= setting.rounds}
        if not runs:
            return MISSING
        rounds, values, diverged = series(runs[min(runs)])
        kept = values[rounds <= setting.rounds][-last:]
        if (diverged is not None and diverged <= setting.rounds) or not len(kept) or not np.isfinite(kept).all():
            return None
        return float(kept.mean())

    return read


def choices(study: Study, store: Store, method: str = "") -> list[Choice]:
    """What a search found, as far as the store goes."""
    read = reader(store, study.report["metric"])
    return [search(study, cell, read, method) for cell in cells(study)]


def wanted(found: Sequence[Choice]) -> list[Setting]:
    """The runs that a search and its winners come down to; the rest of the grid is not needed."""
    runs = [s for choice in found for s in (*choice.trained, *choice.missing, *choice.chosen)]
    return list({s.run_id: s for s in runs}.values())


def tune(study: Study, store: Store, train: Train, method: str = "") -> Generator[Progress, None, list[Choice]]:
    """Search, then train the winners; stopped at any moment, the same call goes on. Yields as a sweep does."""
    while missing := [s for choice in choices(study, store, method) for s in choice.missing]:
        yield from train(missing)
    found = choices(study, store, method)
    yield from train([s for choice in found for s in choice.chosen])
    return found
