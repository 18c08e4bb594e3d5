"""A question for advice, from the setting to the verdict; whoever asks says how runs are trained."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from baton import search
from baton.advice import budget, probe, tested
from baton.advice.measure import Measure, of_setting
from baton.advice.verdict import Verdict, verdict
from baton.setting import Setting
from baton.store import Store
from baton.store.columns import held_back


class Asked(NamedTuple):
    """What came of it."""

    by: Measure
    probe: list[Setting]  # the runs that decided
    last: int  # evaluations of each that were averaged
    verdict: Verdict


def ask(
    setting: Setting,
    limit: budget.Budget,
    seeds: int,
    algorithms: Sequence[str],
    train: Callable[[list[Setting]], None],
    store: Store,
) -> Asked:
    """Short runs of the algorithms, or of the candidates where none are given; rates by samples that were held back."""
    by = of_setting(setting)
    held, specs = held_back(by.metric), probe.tried(setting, algorithms)
    wanted = budget.spend(setting, by, limit, seeds, specs, train, lambda: search.reader(store, held))
    last = probe.last(wanted[0], by.metric)
    scores, chosen = search.reader(store, by.metric), search.reader(store, held)
    sides = probe.candidates(wanted, scores, by.metric, last, chosen, str)
    return Asked(by, wanted, last, verdict(sides, by, tested.by_answers(wanted, store, by), probe.RATES))
