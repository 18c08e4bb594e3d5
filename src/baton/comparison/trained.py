"""A comparison, trained: the search for rates, then every seed."""

from collections.abc import Callable, Sequence
from typing import Any

from baton.comparison.made import RATES, SEEDS, made
from baton.search import choices, extended, next_of
from baton.setting import Setting
from baton.store import Store
from baton.study import Study, measured


def trained(
    fields: dict[str, Any],
    store: Store,
    train: Callable[[list[Setting]], None],
    algorithms: Sequence[str] = ("sequential", "parallel"),
    lrs: Sequence[float] = (),
    seeds: int = SEEDS,
    metric: str = "",
) -> Study:
    """The study of a comparison, once all of it is in the store. lrs: rates to choose from; none: RATES and beyond."""
    study = made(fields, algorithms, lrs or RATES, seeds, metric, extend=not lrs)
    measured.check(study.report, study.settings, load=True)
    while todo := next_of(study, store):
        train(todo)
    return extended(study, choices(study, store)) if study.tune else study
