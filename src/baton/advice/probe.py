"""The short runs that decide: which they are, and what they came to."""

from collections.abc import Sequence

from baton import algorithms, models
from baton.advice.verdict import Candidate, Tail
from baton.errors import BadInput
from baton.names import split
from baton.search.rules import Missing, Read, shorter
from baton.setting import Setting
from baton.store.columns import EXACT

SIDES = ("sequential", "parallel")
RATES = tuple(10 ** (power / 2) for power in range(-6, 1))  # 10^-3 ... 10^0 in half decades
CLIPS = {"sequential": (0.0, 50.0), "parallel": (0.0, 10.0)}  # the paper's, and none
CONVEX = ("quadratic", "logistic")  # models that are not clipped here
LAST = 10  # evaluations averaged, at most; and at most the later half of the probe


def runs(setting: Setting, metric: str, part: float = 0.1, seeds: int = 3) -> list[Setting]:
    """The probe of a setting: both algorithms, every rate and clip, seeds from the setting's own on."""
    check(part, seeds)
    rounds = length(setting, metric, part)
    grid = [
        {"algorithm": side, "clip": clip, "lr": lr}
        for side in SIDES
        for clip in CLIPS[side][: 1 if convex(setting) else 2]
        for lr in RATES
    ]
    fixed = {**setting.model_dump(), "rounds": rounds}
    return [Setting(**{**fixed, **point, "seed": setting.seed + i}) for point in grid for i in range(seeds)]


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
    step = 1 if metric in EXACT and every > wanted else every  # distances are taken at every round
    return min(setting.rounds, max(1, round(wanted / step)) * step)


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


def candidates(settings: Sequence[Setting], read: Read, metric: str, last: int) -> dict[str, list[Candidate]]:
    """{algorithm: its candidates}: what the runs came to, one a seed; runs that are not there are left out."""
    tails: dict[tuple[str, float, float], list[Tail | None]] = {}
    for s in settings:
        found = tail(s, read, metric, last)
        if not isinstance(found, Missing):
            tails.setdefault((s.algorithm, s.lr, s.clip), []).append(found)
    sides: dict[str, list[Candidate]] = {side: [] for side in SIDES}
    for (algorithm, lr, clip), each in tails.items():
        sides[name(algorithm)].append(Candidate(algorithm, lr, clip, tuple(each)))
    return sides


def _taken(setting: Setting, metric: str) -> list[int]:
    """The rounds after which the metric is taken, but for round 0 where there are others."""
    step = 1 if metric in EXACT else setting.eval_every
    return [*range(step, setting.rounds, step), setting.rounds]
