"""Grid search: which runs a study needs, stage by stage, and which value of the searched fields is chosen, and why.

A method is a generator: it yields the runs it wants next, is sent their scores, and returns its stages. So the same
rule decides while training (`tune.py`) and when a report reads the store. Every run of a stage is the beginning of the
longer run of the next, so that training goes on from it.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from math import isnan
from statistics import fmean
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


class Beside(NamedTuple):
    """What a run says beside its score."""

    loss: float  # on the same samples, over the same evaluations; nan where it is not known
    row: float  # what one of those samples is worth in the metric; 0 where it is no share of samples
    curve: Sequence[float]  # the metric at every evaluation, round 0 the first


ReadBeside = Callable[[Setting, int], Beside]  # as Read


class Stage(NamedTuple):
    """Runs of one length, compared."""

    rounds: int
    scores: dict[str, float | None]  # by name of the candidate
    kept: list[str]  # the best first
    why: str
    tie: str = ""  # which candidates could not be told from the best, and which of them was taken


class Asked(NamedTuple):
    """What a method is told beside its candidates."""

    tune: Tune
    sign: int  # 1: more is better, -1: less is
    study: Study
    beside: ReadBeside | None = None  # None: ties go to the middle


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
    rises: bool = False  # whether the best one was still getting better at its end

    @property
    def trained(self) -> list[Setting]:
        """The runs that were compared at full length."""
        whole = [stage for stage in self.stages if stage.rounds == _rounds(self.cell.grid)]
        return [self.cell.grid[name] for stage in whole for name in stage.scores]

    @property
    def tie(self) -> str:
        """Which candidates could not be told from the best, and which of them was taken."""
        return self.stages[-1].tie if self.best else ""

    def edges(self, over: Sequence[str]) -> list[str]:
        """The searched numbers whose best value is the last of those tried: `lr = 0.3 is the largest`."""
        if not self.best:
            return []
        found = []
        for field in over:
            tried = sorted(
                {x for s in self.cell.grid.values() if isinstance(x := value(s, field), int | float) and x > 0}
            )
            own = value(self.cell.grid[self.best], field)
            if len(tried) > 1 and own in (tried[0], tried[-1]):
                found.append(f"{field} = {_short(own)} is the {'smallest' if own == tried[0] else 'largest'}")
        return found

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


def search(study: Study, cell: Cell, read: Read, beside: ReadBeside | None = None) -> Choice:
    """Follow a method as far as the runs go that are there; beyond the grid too, where the best rate is its last."""
    choice = _follow(study, cell, read, beside)
    for _ in range(WIDER):
        more = wider(study, choice)
        if more is None:
            break
        choice = _follow(study, more, read, beside)
    return choice


STEPS = tuple(float(f"{digit}e{power}") for power in range(-6, 3) for digit in (1, 3))  # rates that may be added
WIDER = 4  # times that a grid is made wider


def wider(study: Study, choice: Choice) -> Cell | None:
    """Return a cell with the next rate beyond the best, which is the last of those tried; None where it is not.

    Where all diverged it is a smaller one. A search by the test set, and the paper's own choice, keep to their grid.
    """
    tune, cell = asked(study).tune, choice.cell
    rates = sorted({s.lr for s in cell.grid.values()})
    fixed = not tune.extend or tune.on == "test" or tune.method == "paper" or "lr" not in tune.over
    if fixed or choice.missing or len(rates) < 2:
        return None
    best = cell.grid[choice.best].lr if choice.best else rates[0]
    below = [max((x for x in STEPS if x < best / 2), default=best)] if best == rates[0] else []
    above = [min((x for x in STEPS if x > best * 2), default=best)] if best == rates[-1] else []
    added = [x for x in (*below, *above) if x != best]
    return _with_rates(cell, best, added, tune.over) if added else None


def _with_rates(cell: Cell, edge: float, rates: Sequence[float], over: Sequence[str]) -> Cell:
    """The candidates of a cell and, for each rate, those at the edge with that rate in place of theirs; by rate."""
    grid, seeds, final = dict(cell.grid), dict(cell.seeds), dict(cell.final)
    for rate in rates:
        for name in [name for name, s in cell.grid.items() if s.lr == edge]:
            own = candidate(_at_rate(cell.grid[name], rate), over)
            grid[own], final[own] = _at_rate(cell.grid[name], rate), _at_rate(cell.final[name], rate)
            seeds[own] = [_at_rate(s, rate) for s in cell.seeds[name]]
    ordered = sorted(grid, key=lambda name: grid[name].lr)
    return cell._replace(grid={name: grid[name] for name in ordered}, seeds=seeds, final=final)


def _at_rate(setting: Setting, rate: float) -> Setting:
    return Setting(**{**setting.model_dump(), "lr": rate})


def extended(study: Study, found: Sequence[Choice]) -> Study:
    """Return the study with the runs that its search added to its grid, which is added to no more."""
    groups = {group: list(own) for group, own in study.groups.items()}
    for choice in found:
        own = groups[choice.cell.group]
        known = {s.key for s in own}
        every = [s for name in choice.cell.final for s in (choice.cell.final[name], *choice.cell.seeds[name])]
        own += [s for s in every if s.key not in known]
    tune = study.tune.model_copy(update={"extend": False}) if study.tune else None
    return study._replace(groups=groups, tune=tune)


def _follow(study: Study, cell: Cell, read: Read, beside: ReadBeside | None) -> Choice:
    ask, rounds = asked(study)._replace(beside=beside), _rounds(cell.grid)
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
    best = next(iter(stages[-1].kept), None)
    rises = False
    if best and beside and stages[-1].scores:
        own = beside(cell.grid[best], study.report.last)
        rises = still_rises(own.curve, ask.sign, own.row)
    return Choice(cell, stages, best, [], spent, full, rises)


def shorter(setting: Setting, rounds: int) -> Setting:
    """The beginning of a run, as a run."""
    return Setting(**{**setting.model_dump(), "rounds": rounds})


def simple(grid: dict[str, Setting], ask: Asked) -> Generator[list[Setting], Scores, list[Stage]]:
    """Every candidate to its end; the best."""
    stage = yield from _stage(grid, None)
    return [_last(grid, stage, ask)]


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
    return [coarse, _last(grid, scores, ask)]


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
    return [*stages, _last(grid, scores, ask)]


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


def _last(grid: dict[str, Setting], scores: dict[str, float | None], ask: Asked) -> Stage:
    """The stage of whole runs: the best; of those within one held-back row of it the least loss, then the middle."""
    why, ranked = f"best of {len(scores)} after {_rounds(grid)} rounds", _ranked(scores, ask.sign)
    if not ranked:
        return _decided(grid, scores, [], None, why)
    beside = {name: ask.beside(grid[name], ask.study.report.last) for name in ranked} if ask.beside else {}
    top = _value(scores, ranked[0])
    row = beside[ranked[0]].row if beside else 0.0
    tied = [name for name in scores if name in ranked and abs(_value(scores, name) - top) <= row * (1 + 1e-9)]
    if len(tied) < 2:
        return _decided(grid, scores, ranked[:1], None, why)
    losses = {name: beside[name].loss for name in tied if beside and not isnan(beside[name].loss)}
    least = [name for name in tied if losses.get(name) == min(losses.values(), default=None)]
    best = least[(len(least) - 1) // 2]
    how = "the one with the least loss" if len(least) < len(tied) else "the middle one"
    within = "within one held-back row" if row else "equal"
    tie = f"{', '.join(tied[:-1])} and {tied[-1]} are a tie ({within}), and it goes to {how}"
    return _decided(grid, scores, [best], None, f"{why}: {tie}")._replace(tie=tie)


def still_rises(curve: Sequence[float], sign: int, row: float) -> bool:
    """Whether the last quarter of a curve is better than the one before by more than a row and 5 % of the whole way."""
    quarter = (len(curve) - 1) // 4
    if not quarter:
        return False
    last, before = fmean(curve[-quarter:]), fmean(curve[-2 * quarter : -quarter])
    return sign * (last - before) > max(row, 0.05 * sign * (last - curve[0]), 0.0)


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
