"""What a study's runs say: for each line the best value of the swept field, its curve over rounds and its summary.

Pure functions of a study and its stored runs; figures and tables only show what is found here.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.setting import Setting
from baton.store import Run
from baton.tuning import candidate

Array = NDArray[np.float64]
Report = Mapping[str, Any]


class Search(NamedTuple):
    """What a study's search comes down to, by run id."""

    over: list[str]
    chosen: set[str]
    wanted: set[str]


class Point(NamedTuple):
    """The complete runs of one value of the swept field, one a seed."""

    value: Any
    mean: float  # of the last evaluations, all seeds together; nan if a run was lost
    std: float
    low: float
    high: float
    pace: float  # mean of all evaluations: of two values that end equal, the one that came there sooner is better
    seeds: int
    lost: int  # runs that diverged or do not end in finite numbers


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


def at(setting: Setting, field: str) -> Any:
    """The value of a field; a field left empty in [report] is the same for all."""
    return getattr(setting, field) if field else ""


def values(settings: Sequence[Setting], field: str) -> list[Any]:
    """Every value of a field once, in the study's order."""
    return list(dict.fromkeys(at(setting, field) for setting in settings))


def measured(run: Run, metric: str) -> tuple[Array, Array]:
    """Rounds and values of a metric where it was taken."""
    found = run.metrics.get(metric, np.full_like(run.metrics["round"], np.nan))
    taken = ~np.isnan(found)
    return run.metrics["round"][taken], found[taken]


def lost(run: Run, report: Report) -> bool:
    """Whether a run diverged, or its metric is not finite at the end (which leaves no number to average)."""
    rounds, found = measured(run, report["metric"])
    ends = len(rounds) > 0 and rounds[-1] == run.setting.rounds and np.isfinite(found[-report["last"] :]).all()
    return run.diverged is not None or not ends


def point(value: Any, runs: Sequence[Run], report: Report) -> Point:
    """The last evaluations of all seeds together."""
    gone = sum(lost(run, report) for run in runs)
    if gone:
        return Point(value, np.nan, np.nan, np.nan, np.nan, np.nan, len(runs), gone)
    series = [measured(run, report["metric"])[1] for run in runs]
    tail = np.concatenate([found[-report["last"] :] for found in series])[:, None]
    with np.errstate(over="ignore"):  # a run close to diverging may hold numbers whose square is not finite
        mean, low, high = (float(x[0]) for x in _spread(tail, "std", report["log"]))
        return Point(value, mean, float(tail.std()), low, high, float(np.concatenate(series).mean()), len(runs), 0)


def choose(points: Sequence[Point], best: str) -> Point | None:
    """The best value. One at which a run was lost loses to all others, and the fewer were lost the later."""
    sign = -1 if best == "max" else 1

    def rank(p: Point) -> tuple[float, float, float]:
        return (p.lost, 0.0, 0.0) if p.lost else (0, sign * p.mean, sign * p.pace)

    return min(points, key=rank, default=None)


def curve(settings: Sequence[Setting], runs: Mapping[str, Run], report: Report, found: Search | None = None) -> Curve:
    """One line of one panel: settings that differ in the swept fields and the seed only.

    The best value is the one that a search chose, where there was one; else the best of all that ran.
    """
    complete: dict[Any, list[Run]] = {}
    chosen: list[Any] = []
    for setting in settings:
        value = swept(setting, report["over"], found)
        if setting.run_id in runs:
            complete.setdefault(value, []).append(runs[setting.run_id])
        if found and setting.run_id in found.chosen:
            chosen.append(value)
    points = [point(value, own, report) for value, own in complete.items()]
    allowed = chosen if found else report["among"] or complete
    best = choose([p for p in points if p.value in allowed], report["best"])
    drawn = over_rounds(complete[best.value] if best else (), report)
    wanted = sum(1 for s in settings if found is None or s.run_id in found.wanted)
    return Curve(points, best, *drawn, wanted=wanted, seeds=len(values(settings, "seed")))


def swept(setting: Setting, over: str, found: Search | None) -> Any:
    """The value that is chosen: of one field, or of all that were searched together."""
    return candidate(setting, found.over) if found and len(found.over) > 1 else at(setting, over)


def over_rounds(runs: Sequence[Run], report: Report) -> tuple[Array, Array, Array, Array]:
    """Rounds, mean, low and high over seeds, at the rounds that all of them reached."""
    series = [measured(run, report["metric"]) for run in runs]
    if not series:
        return np.empty(0), np.empty(0), np.empty(0), np.empty(0)
    rounds = reduce(np.intersect1d, [taken for taken, _ in series])
    stacked = np.stack([found[np.isin(taken, rounds)] for taken, found in series])
    with np.errstate(over="ignore", invalid="ignore"):
        return rounds, *_spread(stacked, report["shade"], report["log"])


def _spread(stacked: Array, shade: str, log: bool) -> tuple[Array, Array, Array]:
    """Mean, low and high over the first axis."""
    mean, std = stacked.mean(0), stacked.std(0)
    if shade == "minmax":
        return mean, stacked.min(0), stacked.max(0)
    low = mean - std
    if log:  # a log axis has no place for mean - std below zero
        low = np.where(low > 0, low, stacked.min(0))
    return mean, low, mean + std
