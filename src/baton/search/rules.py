"""Grid search: which runs a study needs, stage by stage, and which value of the searched fields is chosen, and why.

A method is a generator: it yields the runs it wants next, is sent their scores, and returns its stages. So the same
rule decides while training (`tune.py`) and when a report reads the store. Every run of a stage is the beginning of the
longer run of the next, so that training goes on from it.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from baton.clients import steps
from baton.errors import BadInput, nearest
from baton.search import match
from baton.setting import Setting
from baton.store.columns import held_back
from baton.study import Study, Tune
from baton.study.fields import value


class Missing(Enum):
    """A run that is not there yet."""

    MISSING = "missing"


MISSING = Missing.MISSING
Scores = Mapping[str, float | None]  # a setting's key -> mean of the last evaluations; None: diverged
Read = Callable[[Setting, int], float | Missing | None]  # a run, and how many of its last evaluations to average


class Stage(NamedTuple):
    """Runs of one length, compared."""

    rounds: int
    scores: dict[str, float | None]  # by name of the candidate
    kept: list[str]  # the best first
    why: str


class Asked(NamedTuple):
    """What a method is told beside its candidates."""

    tune: Tune
    sign: int  # 1: more is better, -1: less is
    study: Study


Method = Callable[[dict[str, Setting], Asked], Generator[list[Setting], Scores, list[Stage]]]


class Cell(NamedTuple):
    """Runs that differ in the searched fields and the seed only; one value is chosen for all seeds."""

    group: str
    fields: dict[str, Any]  # the others
    grid: dict[str, Setting]  # name of the candidate ("lr = 0.1") -> its run in the search, with the searched seed
    seeds: dict[str, list[Setting]]  # the same as they are trained and shown in the end, with the other seeds
    final: dict[str, Setting]  # and with the searched one: on all samples, where the search held some back


class Choice(NamedTuple):
    """What a search found for a cell."""

    cell: Cell
    stages: list[Stage]
    best: str | None  # name of the candidate; None: all diverged, or not known yet
    missing: list[Setting]  # runs without which the search cannot go on
    spent: int  # SGD steps of the search so far
    full: int  # SGD steps of the whole grid at full length

    @property
    def trained(self) -> list[Setting]:
        """The runs that were compared at full length."""
        whole = [stage for stage in self.stages if stage.rounds == _rounds(self.cell.grid)]
        return [self.cell.grid[name] for stage in whole for name in stage.scores]

    @property
    def chosen(self) -> list[Setting]:
        """The runs of the best candidate, the searched seed first."""
        return [self.cell.final[self.best], *self.cell.seeds[self.best]] if self.best else []


def asked(study: Study) -> Asked:
    """What a study with [tune] asks of a method."""
    if study.tune is None:
        raise BadInput(f"tune: study {study.name!r} has no table [tune]; '[tune]' and 'over = [\"lr\"]' is right")
    return Asked(study.tune, -1 if study.tune.by == "loss" else study.report.sign, study)


def scored(study: Study) -> str:
    """What candidates are chosen by: the study's metric, or the loss; on samples held back, unless [tune] says test."""
    if study.tune is None:
        return study.report.metric
    metric = "test_loss" if study.tune.by == "loss" else study.report.metric
    return held_back(metric) if study.tune.on == "validation" else metric


def on_test_set(study: Study) -> bool:
    """Whether the swept values are chosen by test rows, by a search that says so or for want of one."""
    if study.tune is None:
        chooses = any(len(study.values(field)) > 1 for field in study.swept)
    else:
        chooses = study.tune.method != "paper"
    return chooses and held_back(scored(study)) != scored(study)


def tried(study: Study, setting: Setting) -> Setting:
    """A run as a search makes it: with samples held back, where it is to choose by them."""
    if setting.validation or not scored(study).startswith("validation_"):
        return setting
    return Setting(**{**setting.model_dump(), "validation": asked(study).tune.share})


def cells(study: Study) -> list[Cell]:
    """Every cell of a study with [tune]."""
    over, seed = asked(study).tune.over, study.search_seed
    seeds = list(dict.fromkeys(s.seed for s in study.settings))
    if seed not in seeds:
        raise BadInput(f"[tune] seed: {seed} is not among the study's seeds; one of {seeds} is right")
    found: dict[tuple[Any, ...], Cell] = {}
    for group, settings in study.groups.items():
        for s in settings:
            fields = {f: value(s, f, over) for f in Setting.model_fields if f not in (*over, "seed")}
            cell = found.setdefault((group, *fields.values()), Cell(group, fields, {}, {}, {}))
            name = candidate(s, over)
            if s.seed == seed:
                cell.grid[name], cell.final[name] = tried(study, s), s
            else:
                cell.seeds.setdefault(name, []).append(s)
    for cell in found.values():
        for name in cell.grid:
            cell.seeds.setdefault(name, [])
    return list(found.values())


def candidate(setting: Setting, over: Sequence[str]) -> str:
    """`lr = 0.1, clip = 10`: the searched fields of a run, without options that its algorithm does not have."""
    found = {field: value(setting, field) for field in over}
    there = {field: x for field, x in found.items() if x is not None} or found
    return ", ".join(f"{field} = {_short(x)}" for field, x in there.items())


def _short(x: Any) -> str:
    return f"{x:.4g}" if isinstance(x, float) else "none" if x is None else str(x)


def method(name: str) -> Method:
    """The rule of that name."""
    if name not in METHODS:
        raise BadInput(f"tune: no method {name!r}; {nearest(name, METHODS)}")
    return METHODS[name]


def search(study: Study, cell: Cell, read: Read) -> Choice:
    """Follow a method as far as the runs go that are there."""
    ask, rounds = asked(study), _rounds(cell.grid)
    rule = method(ask.tune.method)(cell.grid, ask)
    spent = 0
    longest: dict[Setting, int] = {}  # the run whole -> rounds of it that the search needed
    full = sum(steps(s) for s in cell.grid.values())
    stages: list[Stage] = []
    try:
        wanted = next(rule)
        while True:
            last = {s.key: study.report.last if s.rounds == rounds else ask.tune.last for s in wanted}
            found = {s.key: read(s, last[s.key]) for s in wanted}
            missing = [s for s in wanted if found[s.key] is MISSING]
            longest |= {shorter(s, rounds): s.rounds for s in wanted if s not in missing}
            spent = sum(steps(s) // s.rounds * needed for s, needed in longest.items())
            if missing:
                return Choice(cell, stages, None, missing, spent, full)
            wanted = rule.send({run: score for run, score in found.items() if not isinstance(score, Missing)})
    except StopIteration as end:
        stages = end.value
    return Choice(cell, stages, next(iter(stages[-1].kept), None), [], spent, full)


def shorter(setting: Setting, rounds: int) -> Setting:
    """The beginning of a run, as a run."""
    return Setting(**{**setting.model_dump(), "rounds": rounds})


def simple(grid: dict[str, Setting], ask: Asked) -> Generator[list[Setting], Scores, list[Stage]]:
    """Every candidate to its end; the best."""
    stage = yield from _stage(grid, None)
    ranked = _ranked(stage, ask.sign)
    return [_decided(grid, stage, ranked[:1], None, f"best of {len(grid)} after {_rounds(grid)} rounds")]


def coarse_fine(grid: dict[str, Setting], ask: Asked) -> Generator[list[Setting], Scores, list[Stage]]:
    """Short runs of all; long runs of those close to the best; the best of these."""
    short, within = min(ask.tune.short, _rounds(grid)), ask.tune.within
    scores = yield from _stage(grid, short)
    ranked = _ranked(scores, ask.sign)
    near = [name for name in ranked if abs(_value(scores, name) - _value(scores, ranked[0])) <= within]
    coarse = _decided(grid, scores, near, short, f"within {within:g} of the best after {short} rounds")
    if not near:
        return [coarse]
    scores = yield from _stage({name: grid[name] for name in near}, None)
    best = _ranked(scores, ask.sign)[:1]
    return [coarse, _decided(grid, scores, best, None, f"best of {len(near)} after {_rounds(grid)} rounds")]


def halving(grid: dict[str, Setting], ask: Asked) -> Generator[list[Setting], Scores, list[Stage]]:
    """Successive halving: at an eighth, a quarter and a half of the rounds the worse half goes.

    A candidate `within` reach of the best stays: so early, such a difference says nothing.
    """
    stages: list[Stage] = []
    left, rounds, within = dict(grid), _rounds(grid), ask.tune.within
    for part in HALVING:
        length = rungs(grid, part)
        if len(left) < 2 or length >= rounds:
            continue
        scores = yield from _stage(left, length)
        ranked = _ranked(scores, ask.sign)
        near = [n for n in ranked if abs(_value(scores, n) - _value(scores, ranked[0])) <= within]
        kept = ranked[: max(-(-len(left) // 2), len(near))]
        stages.append(_decided(grid, scores, kept, length, f"better half after {length} rounds, or within {within:g}"))
        left = {name: left[name] for name in kept}
        if not left:
            return stages
    scores = yield from _stage(left, None)
    best = _ranked(scores, ask.sign)[:1]
    return [*stages, _decided(grid, scores, best, None, f"best of {len(left)} after {rounds} rounds")]


def as_in_the_paper(grid: dict[str, Setting], ask: Asked) -> Generator[list[Setting], Scores, list[Stage]]:
    """No search: the learning rate that the paper's own one took."""
    for name, setting in grid.items():
        rows, where = match.taken(ask.study, setting, ask.tune.over)
        if match.at_value(rows, setting, [field for field in ask.tune.over if rows and field in rows[0]]):
            yield from ()
            return [Stage(_rounds(grid), {}, [name], f"the paper's choice (its table {where!r})")]
    one = next(iter(grid.values()))
    what = f"{one.dataset}, {one.model}, {one.partition}, {one.algorithm}, {one.length}"
    fields = ", ".join(ask.tune.over)
    raise BadInput(f"tune: the paper has no value of {fields} for {what}; another --method is right")


HALVING = (1 / 8, 1 / 4, 1 / 2)  # parts of the rounds
METHODS: dict[str, Method] = {
    "simple": simple,
    "coarse-fine": coarse_fine,
    "halving": halving,
    "paper": as_in_the_paper,
}


def rungs(grid: dict[str, Setting], part: float) -> int:
    """Rounds of a rung, at an evaluation."""
    one = next(iter(grid.values()))
    return max(1, round(part * one.rounds / one.eval_every)) * one.eval_every


def _stage(grid: dict[str, Setting], rounds: int | None) -> Generator[list[Setting], Scores, dict[str, float | None]]:
    runs = {name: s if rounds in (None, s.rounds) else shorter(s, rounds) for name, s in grid.items()}
    scores = yield list(runs.values())
    return {name: scores[s.key] for name, s in runs.items()}


def _ranked(scores: Mapping[str, float | None], sign: int) -> list[str]:
    """The best first; what diverged is out."""
    sound = [name for name, score in scores.items() if score is not None]
    return sorted(sound, key=lambda name: -sign * _value(scores, name))


def _value(scores: Mapping[str, float | None], name: str) -> float:
    score = scores[name]
    assert score is not None
    return score


def _decided(
    grid: dict[str, Setting], scores: dict[str, float | None], kept: list[str], rounds: int | None, why: str
) -> Stage:
    return Stage(rounds or _rounds(grid), scores, kept, why if kept else "every candidate diverged")


def _rounds(grid: dict[str, Setting]) -> int:
    return next(iter(grid.values())).rounds
