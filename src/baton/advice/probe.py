"""The short runs that decide: which they are, and what they came to."""

from collections.abc import Callable, Sequence

import numpy as np

from baton import algorithms, clients, models
from baton.advice.verdict import Candidate, Tail
from baton.errors import BadInput
from baton.names import split
from baton.search.rules import Missing, Read, shorter
from baton.setting import Setting
from baton.store.columns import EXACT, held_back

SIDES = ("sequential", "parallel")
RATES = tuple(10 ** (power / 2) for power in range(-6, 1))  # 10^-3 ... 10^0 in half decades
CLIPS = {"sequential": (0.0, 50.0)}  # the paper's, and none
CLIP = (0.0, 10.0)  # of all others: the paper's of parallel
HELD = 0.2  # share of each client's samples that rates are chosen by
CONVEX = ("quadratic", "logistic")  # models that are not clipped here
LAST = 10  # evaluations averaged, at most; and at most the later half of the probe


def runs(
    setting: Setting, metric: str, part: float = 0.1, seeds: int = 3, algorithms: Sequence[str] = SIDES
) -> list[Setting]:
    """The probe of a setting: these algorithms, every rate and clip, seeds from the setting's own on.

    Where there is a test set, rates are chosen by other samples, which the clients hold back.
    """
    check(part, seeds)
    rounds = length(setting, metric, part)
    grid = [
        {"algorithm": side, "clip": clip, "lr": lr}
        for side in algorithms
        for clip in CLIPS.get(name(side), CLIP)[: 1 if convex(setting) else 2]
        for lr in RATES
    ]
    fixed = {**setting.model_dump(), "rounds": rounds}
    if held_back(metric) != metric and not setting.validation:
        fixed["validation"] = HELD
    return [Setting(**{**fixed, **point, "seed": setting.seed + i}) for point in grid for i in range(seeds)]


def tried(setting: Setting, given: Sequence[str] = ()) -> list[str]:
    """The algorithms to probe: those given, or the candidates; size weighting only where sizes differ."""
    if given:
        specs = [Setting(**{**setting.model_dump(), "algorithm": spec}).algorithm for spec in given]
        if len(specs) < 2 or len(set(specs)) < len(specs):
            raise BadInput(f"algorithm: {', '.join(given)}; two or more that differ, or none, are right")
        return specs
    owner = clients.owners(setting.dataset, setting.partition, setting.clients)
    sizes = np.bincount(owner[owner >= 0], minlength=setting.clients)
    even = sizes.min() == sizes.max()
    return [spec for spec in algorithms.CANDIDATES if not (even and spec.endswith("weighting=size"))]


def check(part: float, seeds: int) -> None:
    """Refuse a probe that cannot be."""
    if not 0 < part <= 1:
        raise BadInput(f"probe: {part:g}; a part of the rounds, above 0, up to 1, is right")
    if seeds < 1:
        raise BadInput(f"seeds: {seeds}; at least 1 is right")


def convex(setting: Setting) -> bool:
    """Whether the model is known to be: its runs are not clipped, and it has the convex bounds."""
    return split("model", setting.model, models.MODELS)[0] in CONVEX


def length(setting: Setting, metric: str, part: float) -> int:
    """A part of the rounds, rounded to evaluations."""
    wanted, every = part * setting.rounds, setting.eval_every
    each = 1 if metric in EXACT and every > wanted else every  # distances are taken at every round
    return min(setting.rounds, max(1, round(wanted / each)) * each)


def step(setting: Setting, metric: str) -> int:
    """Rounds between two values of the metric."""
    return 1 if metric in EXACT else setting.eval_every


def last(setting: Setting, metric: str) -> int:
    """How many evaluations of a probe are averaged."""
    return max(1, min(LAST, (len(_taken(setting, metric)) - 1) // 2))


def name(algorithm: str) -> str:
    """`parallel:weighting=size` -> `parallel`."""
    return split("algorithm", algorithm, algorithms.ALGORITHMS)[0]


def tail(setting: Setting, read: Read, metric: str, last: int) -> Tail | Missing | None:
    """The last evaluations of a run one by one, each read as the end of a shorter run; None: diverged."""
    found = []
    for rounds in _taken(setting, metric)[-last:]:
        value = read(setting if rounds == setting.rounds else shorter(setting, rounds), 1)
        if not isinstance(value, float):
            return value
        found.append(value)
    return tuple(found)


def candidates(
    settings: Sequence[Setting],
    read: Read,
    metric: str,
    last: int,
    by: Read | None = None,
    key: Callable[[str], str] = name,
) -> dict[str, list[Candidate]]:
    """{algorithm: its candidates}: what the runs came to, one a seed; runs that are not there are left out.

    by: the scores that a side's best candidate is chosen by; None: the same. key: what a side is called by.
    """
    tails: dict[tuple[str, float, float], dict[int, Tail | None]] = {}
    chosen: dict[tuple[str, float, float], list[float]] = {}
    for s in settings:
        found, knobs = tail(s, read, metric, last), (s.algorithm, s.lr, s.clip)
        if not isinstance(found, Missing):
            tails.setdefault(knobs, {})[s.seed] = found
            other = tail(s, by, metric, last) if by and found else None
            chosen.setdefault(knobs, []).extend(other if isinstance(other, tuple) else ())
    sides: dict[str, list[Candidate]] = {}
    for (algorithm, lr, clip), each in tails.items():
        held = tuple(chosen[algorithm, lr, clip])
        made = Candidate(algorithm, lr, clip, tuple(each.values()), tuple(each), held)
        sides.setdefault(key(algorithm), []).append(made)
    return sides


def _taken(setting: Setting, metric: str) -> list[int]:
    """The rounds after which the metric is taken, but for round 0 where there are others."""
    each = step(setting, metric)
    return [*range(each, setting.rounds, each), setting.rounds]
