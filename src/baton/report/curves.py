"""What a study's runs say: for each line the best value of the swept field, its curve over rounds and its summary.

Pure functions of a study and its stored runs; figures and tables only show what is found here.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from baton.report.bands import FLOOR, Array, measured, over_rounds, spread
from baton.search.rules import candidate
from baton.setting import Setting
from baton.store import Run
from baton.study import Report
from baton.study.fields import value
from baton.study.measured import averaged
from baton.verdict import interval

LARGEST = 308.0  # power of ten that a float holds: two seeds that are far apart have an interval without end


class Search(NamedTuple):
    """What a study's search comes down to, by run id."""

    over: list[str]
    chosen: set[str]
    wanted: set[str]
    gone: set[str]  # of cells in which every candidate diverged


class Point(NamedTuple):
    """The complete runs of one value of the swept field, one a seed."""

    value: Any
    mean: float  # of the last evaluations, all seeds together; nan if a run was lost
    std: float  # over seeds; in the paper's way over their last evaluations too
    low: float  # of the 95 % interval; in the paper's way one deviation
    high: float
    pace: float  # mean of all evaluations: of two values that end equal, the one that came there sooner is better
    seeds: int
    lost: int  # runs that diverged or do not end in finite numbers
    scores: dict[int, float] = {}  # noqa: RUF012 seed -> mean of its last evaluations; its power of ten where log
    half: float = np.nan  # of the interval's width; inf for one seed, nan in the paper's way
    log: bool = False  # whether scores and half are powers of ten


class Curve(NamedTuple):
    """The runs of one line in one panel."""

    points: list[Point]  # in the study's order
    best: Point | None  # None where no run is complete
    rounds: Array  # of the best value, as are the next three
    mean: Array
    low: Array
    high: Array
    wanted: int  # runs the study asks for
    seeds: int  # among them
    lead: Any  # the value drawn: the best, or else the one that is ahead so far
    runs: dict[Any, list[Run]]  # complete ones by value
    begun: dict[Any, list[Run]]  # unfinished ones by value

    @property
    def drawn(self) -> list[Run]:
        """The runs behind the curve: complete ones, or else those on their way."""
        return self.runs.get(self.lead) or self.begun.get(self.lead, [])

    @property
    def done(self) -> bool:
        """Whether what is drawn is complete."""
        return self.lead in self.runs

    @property
    def complete(self) -> int:
        """Runs trained to their end."""
        return sum(point.seeds for point in self.points)

    @property
    def missing(self) -> int:
        """Runs that are wanted and not there; a search may have left more than it wants."""
        return max(0, self.wanted - self.complete)

    @property
    def lost(self) -> int:
        """Runs that diverged, whatever their value of the swept field."""
        return sum(point.lost for point in self.points)


def lost(run: Run, report: Report) -> bool:
    """Whether a run diverged, or its metric is not finite at the end (which leaves no number to average)."""
    rounds, _ = measured(run, report.metric)
    ends = len(rounds) > 0 and rounds[-1] == run.setting.rounds and np.isfinite(_ends(run, report)).all()
    return run.diverged is not None or not ends


def _ends(run: Run, report: Report) -> Array:
    """Return the evaluations of a run that are averaged."""
    rounds, found = measured(run, report.metric)
    return found[rounds > 0][-averaged(run.setting, report.metric, report.last) :]


def point(value: Any, runs: Sequence[Run], report: Report) -> Point:
    """The last evaluations: a mean a seed, and the interval of these; in the paper's way all seeds together."""
    gone = sum(lost(run, report) for run in runs)
    if gone:
        return _nothing(value, len(runs), gone)
    series = [measured(run, report.metric)[1] for run in runs]
    with np.errstate(over="ignore"):  # a run close to diverging may hold numbers whose square is not finite
        pace = float(np.concatenate(series).mean())
        if report.spread == "interval":
            ends = [float(_ends(run, report).mean()) for run in runs]
            return _interval(value, {run.setting.seed: x for run, x in zip(runs, ends, strict=True)}, pace, report)
        tail = np.concatenate([_ends(run, report) for run in runs])[:, None]
        mean, low, high = (float(x[0]) for x in spread(tail, "std", report.log))
        return Point(value, mean, float(tail.std()), low, high, pace, len(runs), 0)


def _interval(value: Any, ends: dict[int, float], pace: float, report: Report) -> Point:
    """One score a seed; where the metric's axis is logarithmic, the geometric mean and its interval."""
    if not report.log:
        found = interval(list(ends.values()))
        return Point(value, found.mean, found.std, found.low, found.high, pace, len(ends), 0, ends, found.half)
    scores = {seed: float(np.log10(max(x, FLOOR))) for seed, x in ends.items()}
    found = interval(list(scores.values()))
    mean, low, high = (float(10.0 ** min(x, LARGEST)) for x in (found.mean, found.low, found.high))
    return Point(
        value, mean, interval(list(ends.values())).std, low, high, pace, len(ends), 0, scores, found.half, True
    )


def _nothing(value: Any, seeds: int, lost: int) -> Point:
    return Point(value, np.nan, np.nan, np.nan, np.nan, np.nan, seeds, lost)


def choose(points: Sequence[Point], report: Report) -> Point | None:
    """The best value. One at which a run was lost loses to all others, and the fewer were lost the later."""

    def rank(p: Point) -> tuple[float, float, float]:
        return (p.lost, 0.0, 0.0) if p.lost else (0, -report.sign * p.mean, -report.sign * p.pace)

    return min(points, key=rank, default=None)


def curve(
    settings: Sequence[Setting],
    runs: Mapping[str, Run],
    report: Report,
    found: Search | None = None,
    begun: Mapping[str, Run] = MappingProxyType({}),
) -> Curve:
    """One line of one panel: settings that differ in the swept fields and the seed only.

    The best value is the one that a search chose, where there was one; else the best of all that ran.
    """
    over = found.over if found else [field for field in [report.over] if field]
    complete, on_the_way = (_by_value(settings, some, over) for some in (runs, begun))
    points = [point(value, own, report) for value, own in complete.items()]
    best = choose([p for p in points if p.value in _allowed(settings, complete, report, found)], report)
    if best is None and found and any(s.run_id in found.gone for s in settings):
        best = _nothing(swept(settings[0], over), 0, len(on_the_way) or 1)
    lead = best.value if best else leading(on_the_way, report)
    drawn = over_rounds(complete.get(lead) or on_the_way.get(lead, []), report.metric, report)
    wanted = sum(1 for s in settings if found is None or s.run_id in found.wanted)
    return Curve(points, best, *drawn, wanted, len({s.seed for s in settings}), lead, complete, on_the_way)


def _by_value(settings: Sequence[Setting], runs: Mapping[str, Run], over: Sequence[str]) -> dict[Any, list[Run]]:
    by_value: dict[Any, list[Run]] = {}
    for setting in settings:
        if setting.run_id in runs:
            by_value.setdefault(swept(setting, over), []).append(runs[setting.run_id])
    return by_value


def _allowed(
    settings: Sequence[Setting], complete: Mapping[Any, Any], report: Report, found: Search | None
) -> Collection[Any]:
    """The values that the best is chosen from."""
    if found is None:
        return report.among or complete
    return [swept(s, found.over) for s in settings if s.run_id in found.chosen]


def swept(setting: Setting, over: Sequence[str]) -> Any:
    """The value that is chosen: of one field, or of all that are searched together; '' where there is none."""
    if len(over) > 1:
        return candidate(setting, over)
    return value(setting, over[0]) if over else ""


def leading(begun: Mapping[Any, Sequence[Run]], report: Report) -> Any:
    """Of values whose runs are on their way, the one that is best where all of them have come to."""
    ways = {value: over_rounds(runs, report.metric, report)[:2] for value, runs in begun.items()}
    ways = {value: way for value, way in ways.items() if len(way[0])}
    if not ways:
        return None
    reached = min(rounds[-1] for rounds, _ in ways.values())

    def rank(value: Any) -> float:
        rounds, mean = ways[value]
        here = mean[rounds <= reached]
        return -report.sign * float(here[-1]) if len(here) and np.isfinite(here[-1]) else np.inf

    return min(ways, key=rank)
