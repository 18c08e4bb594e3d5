"""A study's runs as a grid of panels: which run belongs to which curve, and which curve is ahead."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from baton.errors import BadInput, nearest
from baton.report import words
from baton.report.curves import Curve, Report, Search, at, curve, values
from baton.search import choices, wanted
from baton.setting import Setting
from baton.store import Run, Store
from baton.study import Study
from baton.tuning import Choice


class Found(NamedTuple):
    """A study's runs in the store."""

    runs: dict[str, Run]  # complete ones by id
    choices: list[Choice]  # of its search; empty where there is none
    wanted: list[Setting]  # all that should be there


class Panel(NamedTuple):
    """One group, at one value of the field that has a figure a value."""

    figure: Any
    group: str
    curves: dict[Any, Curve]  # by line


def load(study: Study, store: Store) -> Found:
    """What the store holds of a study."""
    runs = {s.run_id: store.read(s.run_id) for s in study.settings if store.complete(s.run_id)}
    found = choices(study, store) if study.tune else []
    if not runs and not any(choice.stages for choice in found):
        hint = "'baton tune' searches" if study.tune else "'baton sweep' trains them"
        raise BadInput(f"report: no complete run of study {study.name!r} in {store.root}; {hint}")
    metric = study.report["metric"]
    taken = sorted({name for run in runs.values() for name, x in run.metrics.items() if not np.isnan(x).all()})
    if runs and metric not in taken:
        known = [name for name in taken if name != "round"]
        raise BadInput(f"report: no run of study {study.name!r} measured {metric!r}; {nearest(metric, known)}")
    return Found(runs, found, wanted(found) if study.tune else study.settings)


def panels(study: Study, found: Found) -> list[Panel]:
    """Every panel of a study: by value of the figures field, then by group."""
    report, made = study.report, []
    search = _search(study, found)
    over = search.over if search else [report["over"]]
    for group, listed in study.groups.items():
        settings = list({s.run_id: s for s in listed}.values())
        extra = splits(settings, [f for f in (*over, report["lines"], report["figures"], "seed") if f])
        cells: dict[tuple[Any, ...], list[Setting]] = {}
        for setting in settings:
            key = (at(setting, report["figures"]), *(at(setting, field) for field in extra))
            cells.setdefault(key, []).append(setting)
        for (figure, *rest), own in cells.items():
            named = ", ".join(words.called(study, field, value) for field, value in zip(extra, rest, strict=True))
            label = ", ".join(filter(None, (group if group != "all" or not named else "", named)))
            by_line = {
                line: [s for s in own if at(s, report["lines"]) == line] for line in values(own, report["lines"])
            }
            curves = {line: curve(own, found.runs, report, search) for line, own in by_line.items()}
            made.append(Panel(figure, label, curves))
    order = values(study.settings, report["figures"])
    return sorted(made, key=lambda panel: order.index(panel.figure))


def _search(study: Study, found: Found) -> Search | None:
    if study.tune is None:
        return None
    chosen = {s.run_id for choice in found.choices for s in choice.chosen}
    return Search(study.tune["over"], chosen, {s.run_id for s in found.wanted})


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
