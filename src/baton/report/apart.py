"""How far apart the lines of a panel are, and which of them are ahead: by seeds and by test rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baton.report.curves import Curve
from baton.setting import Setting
from baton.study import Report
from baton.verdict import Difference, Rows, answered, bounded, difference
from baton.verdict.rows import Right

Apart = Mapping[tuple[Any, Any], Difference]  # (the better line, the other) -> the first less the second


class Tested(NamedTuple):
    """What is known of the test sets behind a study's runs."""

    rows: Mapping[tuple[str, int], int] = {}  # (data set, clients) -> test rows
    right: Mapping[str, Right] = {}  # run id -> which rows its final model gets right [n]


def unit(report: Report) -> str:
    """Of a difference."""
    return "decades" if report.log else "points" if report.metric.endswith("accuracy") else ""


def ranked(curves: Mapping[Any, Curve], report: Report) -> list[Any]:
    """Lines that ended in a number, the best first."""
    means = {line: c.best.mean for line, c in curves.items() if c.best and not c.best.lost}
    return sorted(means, key=lambda line: -report.sign * means[line])


def apart(curves: Mapping[Any, Curve], report: Report, tested: Tested) -> dict[tuple[Any, Any], Difference]:
    """Every two lines of a panel, each at its best value."""
    lines, found = ranked(curves, report), {}
    for i, first in enumerate(lines):
        for second in lines[i + 1 :]:
            one, other = (curves[line].best for line in (first, second))
            assert one is not None
            assert other is not None
            rows = _rows(curves[first], curves[second], tested) if _sampled(report) else None
            found[first, second] = difference(one.scores, other.scores, report.sign, rows)
    return found


def _sampled(report: Report) -> bool:
    """Whether the metric is a share of test rows."""
    return report.metric == "test_accuracy"


def _rows(one: Curve, other: Curve, tested: Tested) -> Rows | None:
    """From both sides' answers to the same rows where they are known; else from their accuracies; else not at all."""
    sides = [[run.setting for run in curve.drawn] for curve in (one, other)]
    known = all(s.run_id in tested.right for side in sides for s in side)
    if known and len({(s.dataset, s.made_of.data) for side in sides for s in side}) == 1:
        first, second = (np.stack([tested.right[s.run_id] for s in side]) for side in sides)
        return answered(first, second)
    counts = [tested.rows.get((s.dataset, s.clients), 0) for side in sides for s in side]
    if not counts or not all(counts) or one.best is None or other.best is None:
        return None
    return bounded(one.best.mean, other.best.mean, min(counts))


def leaders(curves: Mapping[Any, Curve], report: Report, found: Apart) -> tuple[Any, ...]:
    """The fewest lines, the best first, each ahead of all others: beyond its interval, and by more than the margin.

    What diverged is behind.
    """
    lines, margin = ranked(curves, report), 0.0 if report.log else report.margin
    for place in range(1, len(lines) + 1):
        ahead = [found[a, b] for a in lines[:place] for b in lines[place:]]
        if place < len(curves) and all(d.clear and d.mean > margin for d in ahead):
            return tuple(lines[:place])
    return ()


def shown(curves: Mapping[Any, Curve], settings: Mapping[Any, Sequence[Setting]]) -> list[Setting]:
    """The runs behind a panel's lines, where there is anything to compare."""
    if len(curves) < 2 or any(curve.best is None for curve in curves.values()):
        return []
    ids = {run.setting.run_id for curve in curves.values() if curve.best and not curve.best.lost for run in curve.drawn}
    return [s for own in settings.values() for s in own if s.run_id in ids]
