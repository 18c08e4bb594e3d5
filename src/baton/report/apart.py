"""How far apart the lines of a panel are, and which of them are ahead: by seeds and by test rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from baton.report.bands import FLOOR
from baton.report.curves import Curve
from baton.setting import Setting
from baton.store.columns import EXACT
from baton.study import Report
from baton.verdict import Apart, Difference, RowErrors, Rows, bounded, difference, scaled, together

UNKNOWN = "what other test rows would have given is not known here"


class Tested(NamedTuple):
    """What is known of the test sets behind a study's runs."""

    rows: Mapping[tuple[str, int], int] = {}  # (data set, clients) -> test rows
    errors: Mapping[str, RowErrors | str] = {}  # run id -> how far its rows may have moved its metric, or why not known


def unit(report: Report) -> str:
    """Of a difference."""
    return "decades" if report.log else "points" if report.metric.endswith("accuracy") else ""


def ranked(curves: Mapping[Any, Curve], report: Report) -> list[Any]:
    """Lines that ended in a number, the best first."""
    means = {line: c.best.mean for line, c in curves.items() if c.best and not c.best.lost}
    return sorted(means, key=lambda line: -report.sign * means[line])


def apart(curves: Mapping[Any, Curve], report: Report, tested: Tested) -> dict[tuple[Any, Any], Difference]:
    """Every two lines of a panel, each at its best value, with p values corrected for all of them."""
    lines, found = ranked(curves, report), {}
    for i, first in enumerate(lines):
        for second in lines[i + 1 :]:
            found[first, second] = _difference(curves[first], curves[second], report, tested)
    return together(found)


def sampled(metric: str) -> bool:
    """Whether the metric is of rows of which there could have been others; training data stay as they are."""
    return metric not in EXACT and not metric.startswith("train_")


def _difference(one: Curve, other: Curve, report: Report, tested: Tested) -> Difference:
    assert one.best is not None
    assert other.best is not None
    scores = (one.best.scores, other.best.scores)
    if not sampled(report.metric):
        return difference(*scores, report.sign)
    known = [
        {run.setting.seed: tested.errors.get(run.setting.run_id, UNKNOWN) for run in c.drawn} for c in (one, other)
    ]
    why = next((x for side in known for x in side.values() if isinstance(x, str)), "")
    if not why:
        return difference(*scores, report.sign, (_errors(known[0], one, report), _errors(known[1], other, report)))
    rows = _bound(one, other, tested) if report.metric == "test_accuracy" else None
    return difference(*scores, report.sign, rows, "" if rows else why)


def _errors(known: Mapping[int, RowErrors | str], curve: Curve, report: Report) -> dict[int, RowErrors]:
    """By seed; on the scale of the scores."""
    scores = curve.best.scores if curve.best else {}
    found = {seed: x for seed, x in known.items() if isinstance(x, RowErrors)}
    return {seed: scaled(x, 10.0 ** scores[seed], FLOOR) if report.log else x for seed, x in found.items()}


def _bound(one: Curve, other: Curve, tested: Tested) -> Rows | None:
    """From the accuracies alone; None where it is not known how many rows there are."""
    counts = [tested.rows.get((run.setting.dataset, run.setting.clients), 0) for c in (one, other) for run in c.drawn]
    if not counts or not all(counts) or one.best is None or other.best is None:
        return None
    return bounded(one.best.mean, other.best.mean, min(counts))


def leaders(curves: Mapping[Any, Curve], report: Report, found: Apart) -> tuple[Any, ...]:
    """The fewest lines, the best first, each ahead of all others: by the corrected p, and by more than the margin.

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
