"""A study's runs as a grid of panels: which run belongs to which curve, and which curve is ahead."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baton.errors import BadInput, nearest
from baton.report.curves import Curve, Report, at, curve, values
from baton.setting import Setting
from baton.store import Run, Store
from baton.study import Study


class Panel(NamedTuple):
    """One group, at one value of the field that has a figure a value."""

    figure: Any
    group: str
    curves: dict[Any, Curve]  # by line


def load(study: Study, store: Store) -> dict[str, Run]:
    """The complete runs of a study by id."""
    runs = {s.run_id: store.read(s.run_id) for s in study.settings if store.complete(s.run_id)}
    if not runs:
        raise BadInput(f"report: no complete run of study {study.name!r} in {store.root}; 'baton sweep' trains them")
    metric = study.report["metric"]
    taken = sorted({name for run in runs.values() for name, x in run.metrics.items() if not np.isnan(x).all()})
    if metric not in taken:
        known = [name for name in taken if name != "round"]
        raise BadInput(f"report: no run of study {study.name!r} measured {metric!r}; {nearest(metric, known)}")
    return runs


def panels(study: Study, runs: Mapping[str, Run]) -> list[Panel]:
    """Every panel of a study: by value of the figures field, then by group."""
    report, found = study.report, []
    for group, listed in study.groups.items():
        settings = list({s.run_id: s for s in listed}.values())
        extra = splits(settings, [f for f in (report["over"], report["lines"], report["figures"], "seed") if f])
        cells: dict[tuple[Any, ...], list[Setting]] = {}
        for setting in settings:
            key = (at(setting, report["figures"]), *(at(setting, field) for field in extra))
            cells.setdefault(key, []).append(setting)
        for (figure, *rest), own in cells.items():
            named = ", ".join(f"{field} = {value}" for field, value in zip(extra, rest, strict=True))
            label = ", ".join(filter(None, (group if group != "all" or not named else "", named)))
            by_line = {
                line: [s for s in own if at(s, report["lines"]) == line] for line in values(own, report["lines"])
            }
            found.append(Panel(figure, label, {line: curve(own, runs, report) for line, own in by_line.items()}))
    order = values(study.settings, report["figures"])
    return sorted(found, key=lambda panel: order.index(panel.figure))


def splits(settings: Sequence[Setting], known: Sequence[str]) -> list[str]:
    """Fields in which runs differ that agree in all known ones: without panels of their own they would be mixed."""
    same: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in settings:
        same.setdefault(tuple(at(setting, field) for field in known), []).append(setting)
    return [f for f in Setting.model_fields if any(len(values(alike, f)) > 1 for alike in same.values())]


def ahead(panel: Panel, report: Report) -> Any | None:
    """The line better than every other by more than the margin; None if there is none, or if one is not there yet.

    On a log axis a margin has no fixed size, so that plainly better is ahead.
    """
    if len(panel.curves) < 2 or any(curve.best is None for curve in panel.curves.values()):
        return None
    sign = 1 if report["best"] == "max" else -1
    scores = {line: sign * c.best.mean if c.best and not c.best.lost else -np.inf for line, c in panel.curves.items()}
    first, second = sorted(scores, key=lambda line: scores[line], reverse=True)[:2]
    margin = 0.0 if report["log"] else report["margin"]
    return first if scores[first] - scores[second] > margin else None
