"""A metric over rounds: its mean and spread over seeds, and what of it a figure shows."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.store import Run
from baton.study import Report

Array = NDArray[np.float64]
FLOOR = 1e-17  # log axes end here: below float64's resolution of 1, distances are rounding and exact zeros
CEILING = 1e12  # all axes end here: past it a run has diverged in all but name


class Band(NamedTuple):
    """What is drawn of some runs."""

    rounds: Array
    mean: Array
    low: Array
    high: Array


def measured(run: Run, metric: str) -> tuple[Array, Array]:
    """Rounds and values of a metric where it was taken."""
    found = run.metrics.get(metric, np.full_like(run.metrics["round"], np.nan))
    taken = ~np.isnan(found)
    return run.metrics["round"][taken], found[taken]


def logs(report: Report, metric: str) -> bool:
    """Whether a metric is drawn on a log axis; further metrics are, unless they are percentages."""
    return report.log and (metric == report.metric or not metric.endswith("accuracy"))


def over_rounds(runs: Sequence[Run], metric: str, report: Report) -> Band:
    """Mean, low and high over seeds, at the rounds that all of them reached."""
    series = [measured(run, metric) for run in runs]
    if not series:
        return Band(*[np.empty(0)] * 4)
    rounds = reduce(np.intersect1d, [taken for taken, _ in series])
    stacked = np.stack([found[np.isin(taken, rounds)] for taken, found in series])
    with np.errstate(over="ignore", invalid="ignore"):
        return Band(rounds, *spread(stacked, report.shade, logs(report, metric)))


def spread(stacked: Array, shade: str, log: bool) -> tuple[Array, Array, Array]:
    """Mean, low and high over the first axis."""
    mean, std = stacked.mean(0), stacked.std(0)
    if shade == "minmax":
        return mean, stacked.min(0), stacked.max(0)
    low = mean - std
    if log:  # a log axis has no place for mean - std below zero
        low = np.where(low > 0, low, stacked.min(0))
    return mean, low, mean + std


def drawn(runs: Sequence[Run], metric: str, report: Report) -> Band:
    """What a figure shows of these runs: smoothed, and within its axis."""
    found = over_rounds(runs, metric, report)
    kept = np.isfinite(found.mean)
    rounds, *rest = (x[kept] for x in found)
    return Band(rounds, *(visible(smooth(x, report.smooth), metric, report) for x in rest))


def window(count: int, part: float) -> int:
    """Evaluations on each side of one that are averaged with it."""
    return max(0, min(round(part * count), count - 1)) // 2


def smooth(x: Array, part: float) -> Array:
    """Moving average over this part of the evaluations, centred; towards the ends the window shrinks."""
    side = window(len(x), part)
    if not side:
        return x
    ends = [x[: 2 * i + 1].mean() for i in range(side)], [x[-2 * i - 1 :].mean() for i in reversed(range(side))]
    return np.concatenate([ends[0], np.convolve(x, np.full(2 * side + 1, 1 / (2 * side + 1)), "valid"), ends[1]])


def visible(x: Array, metric: str, report: Report) -> Array:
    """What an axis can show: no zeros on a log axis, nothing on its way to infinity, no spread past 0 or 100 %."""
    top = 100.0 if metric.endswith("accuracy") else CEILING
    low = -CEILING if "r2" in metric else 0.0  # the only one that may be below
    return np.clip(x, FLOOR if logs(report, metric) else low, top)
