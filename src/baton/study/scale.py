"""`--scale`: the same study with fewer rounds and seeds, and what was changed, for the page to say."""

import math
from typing import NamedTuple

from baton.algorithms import ALGORITHMS, called
from baton.names import option, replaced
from baton.rates import RATES
from baton.setting import Setting
from baton.study.measured import averaged
from baton.study.tables import Report, Tune

Groups = dict[str, list[Setting]]


class Scaled(NamedTuple):
    """What a smaller study has instead."""

    scale: float
    rounds: dict[int, int]  # before -> now
    seeds: tuple[int, int]  # how many before, and now
    last: tuple[int, int]  # evaluations averaged before, and now


def scaled(
    groups: Groups, tune: Tune | None, report: Report, scale: float
) -> tuple[Groups, Tune | None, Report, Scaled]:
    """Rounds to the nearest evaluation; the first seeds, at least one, the searched one among them."""
    settings = [s for group in groups.values() for s in group]
    before = list(dict.fromkeys(s.seed for s in settings))
    first = [tune.seed] if tune and tune.seed in before else []
    kept = list(dict.fromkeys([*first, *before]))[: math.ceil(scale * len(before) - 1e-9)]
    rounds = {s.rounds: _fewer(s.rounds, s.eval_every, scale) for s in settings}
    small = {group: _smaller([s for s in own if s.seed in kept], scale) for group, own in groups.items()}
    last = max(1, round(report.last * scale))
    if tune:
        every = max(s.eval_every for s in settings)
        short = _fewer(tune.short, every, scale)
        tune = tune.model_copy(update={"short": short, "last": max(1, round(tune.last * scale))})
    averages = _averaged(groups, report.metric, report.last), _averaged(small, report.metric, last)
    said = Scaled(scale, rounds, (len(before), len(kept)), averages)
    return small, tune, report.model_copy(update={"last": last}), said


def _averaged(groups: Groups, metric: str, last: int) -> int:
    """Return how many evaluations are averaged, where runs of several lengths differ in it the most of them."""
    return max(averaged(s, metric, last) for own in groups.values() for s in own)


def _smaller(settings: list[Setting], scale: float) -> list[Setting]:
    found = []
    for s in settings:
        rounds = _fewer(s.rounds, s.eval_every, scale)
        small = {"rounds": rounds, "eval_every": min(s.eval_every, rounds), "lr_schedule": _over(s, rounds)}
        small["algorithm"] = _sooner(s, rounds)
        found.append(Setting(**{**s.model_dump(), **small}))
    return list({s.key: s for s in found}.values())


def _over(setting: Setting, rounds: int) -> str:
    """A learning rate that falls over the whole run does so over the smaller one."""
    whole = option("lr_schedule", setting.lr_schedule, RATES, "over") == setting.rounds
    return replaced("lr_schedule", setting.lr_schedule, RATES, {"over": rounds}) if whole else setting.lr_schedule


def _sooner(setting: Setting, rounds: int) -> str:
    """One method after another: the second begins after the same share of the rounds."""
    after = option("algorithm", setting.algorithm, ALGORITHMS, "after")
    if called(setting.algorithm) != "switch" or not isinstance(after, int):
        return setting.algorithm
    return replaced("algorithm", setting.algorithm, ALGORITHMS, {"after": round(after * rounds / setting.rounds)})


def _fewer(rounds: int, every: int, scale: float) -> int:
    """As a multiple of the rounds between evaluations, where that leaves any."""
    exact = max(1, round(rounds * scale))
    return exact if exact < every else min(rounds, max(1, round(rounds * scale / every)) * every)
