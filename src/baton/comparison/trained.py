"""A comparison, trained: the search for rates, wider where the best lies at an end, then every seed."""

from collections.abc import Callable, Sequence
from typing import Any

from baton.comparison.made import RATES, SEEDS, made
from baton.search import choices, next_of
from baton.search.rules import Choice
from baton.setting import Setting
from baton.store import Store
from baton.study import Study, measured

STEPS = tuple(float(f"{digit}e{power}") for power in range(-6, 3) for digit in (1, 3))  # rates that may be tried
MOST = 4  # times that a grid is made wider


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
    study = made(fields, algorithms, lrs or RATES, seeds, metric)
    measured.check(study.report, study.settings, load=True)
    for _ in range(MOST):
        while todo := [s for choice in _found(study, store) for s in choice.missing]:
            train(todo)
        more = wider(study.values("lr"), _found(study, store))
        if lrs or not more:
            break
        study = made(fields, algorithms, sorted([*study.values("lr"), *more]), seeds, metric)
    while todo := next_of(study, store):
        train(todo)
    return study


def _found(study: Study, store: Store) -> list[Choice]:
    return choices(study, store) if study.tune else []


def wider(rates: Sequence[float], found: Sequence[Choice]) -> list[float]:
    """Rates just beyond those tried, where the best was the last of them; a smaller one where all diverged."""
    low, high = min(rates), max(rates)
    best = {choice.cell.final[choice.best].lr if choice.best else low for choice in found}
    below = [max((x for x in STEPS if x < low), default=low)] if low in best else []
    above = [min((x for x in STEPS if x > high), default=high)] if high in best else []
    return [x for x in (*below, *above) if x not in rates]
