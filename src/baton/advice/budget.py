"""How long a probe may be: a part of the rounds, or a time that it uses up."""

import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from baton.advice import probe
from baton.advice.measure import Measure
from baton.advice.verdict import Candidate, side
from baton.errors import BadInput
from baton.search.rules import Read, shorter
from baton.setting import Setting

FIRST = 0.02  # of the rounds: the first look at every candidate
SAFE = 0.9  # of the time that is left is planned with
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


class Budget(NamedTuple):
    """One of the two."""

    part: float = 0.0  # of the rounds
    seconds: float = 0.0


def parse(text: str) -> Budget:
    """`10%` or `2min`, `90s`, `1h`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%|s|min|h)\s*", text)
    number = float(found[1]) if found else 0.0
    if not found or not number or (found[2] == "%" and number > 100):
        raise BadInput(f"budget: {text!r}; a part of the rounds, 10%, or a time, 90s, 2min or 1h, is right")
    return Budget(part=number / 100) if found[2] == "%" else Budget(seconds=number * UNITS[found[2]])


def spend(
    setting: Setting,
    by: Measure,
    budget: Budget,
    seeds: int,
    algorithms: Sequence[str],
    train: Callable[[list[Setting]], None],
    read: Callable[[], Read],
    clock: Callable[[], float] = time.monotonic,
) -> list[Setting]:
    """The probe's runs, trained. With a time: longer and longer ones of ever fewer rates, until it is used up.

    Each time the runs are at most twice as long, and the worse half of an algorithm's candidates is given up. Where
    they are as long as the whole training and time is left, the best ones get more seeds. read: scores to choose by,
    as the store has them now.
    """
    wanted = probe.runs(setting, by.metric, budget.part or FIRST, seeds, algorithms)
    ends, now = clock() + budget.seconds, clock()
    train(wanted)
    done, before = wanted[0].rounds, 0
    while budget.seconds and done < setting.rounds:
        cost = (clock() - now) / (done - before)  # of a round
        rounds = longer(setting, by.metric, done, (ends - clock()) * SAFE / cost)
        if rounds == done:
            return wanted
        kept = better(wanted, by, read())
        now, before, done = clock(), done, rounds
        wanted = [shorter(s, rounds) for s in kept]
        train(wanted)
    while budget.seconds and ends - clock() > (clock() - now):
        best = {_knobs(c) for own in _sides(wanted, by, read()).values() if (c := side(own, by).best)}
        last = max(s.seed for s in wanted)
        more = [s for s in wanted if (s.algorithm, s.lr, s.clip) in best and s.seed == last]
        if not more:
            break
        now, wanted = clock(), [s for s in wanted if (s.algorithm, s.lr, s.clip) in best]
        wanted += [Setting(**{**s.model_dump(), "seed": last + 1}) for s in more]
        train(wanted)
    return wanted


def longer(setting: Setting, metric: str, done: int, more: float) -> int:
    """The rounds of the next look: at most twice as many, at most so many more, at an evaluation; or as before."""
    step = probe.step(setting, metric)
    whole = min(2 * done, done + int(max(0.0, more)))
    return setting.rounds if whole >= setting.rounds else max(done, whole // step * step)


def better(wanted: Sequence[Setting], by: Measure, read: Read) -> list[Setting]:
    """The better half of each algorithm's candidates, at least two."""
    kept = set()
    for own in _sides(wanted, by, read).values():
        ranked = sorted((c for c in own if not c.diverged), key=lambda c: -by.sign * c.score)
        kept |= {_knobs(c) for c in ranked[: max(2, -(-len(own) // 2))]}
    return [s for s in wanted if (s.algorithm, s.lr, s.clip) in kept] or list(wanted)


def _sides(wanted: Sequence[Setting], by: Measure, read: Read) -> dict[str, list[Candidate]]:
    return probe.candidates(wanted, read, by.metric, probe.last(wanted[0], by.metric), key=str)


def _knobs(candidate: Candidate) -> tuple[str, float, float]:
    return candidate.algorithm, candidate.lr, candidate.clip
