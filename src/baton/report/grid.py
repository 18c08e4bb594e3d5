"""A study's runs as a grid of panels: which run belongs to which curve, and which curve is ahead."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from baton import datasets
from baton.errors import BadInput, nearest
from baton.names import path
from baton.report import words
from baton.report.apart import Tested, apart, sampled, shown
from baton.report.apart import leaders as apart_leaders
from baton.report.curves import Curve, Search, curve
from baton.report.reading import Reading
from baton.search import choices, extended, wanted
from baton.search.rules import Choice, cells
from baton.setting import Setting
from baton.store import Run, Store
from baton.store.columns import EXACT, MEASURED
from baton.study import Report, Study
from baton.verdict import Apart, RowErrors

Answers = Callable[[Sequence[Setting], str], Mapping[str, RowErrors | str]]  # runs, metric -> how far other test rows
# would have moved it, by run id, or why that is not known; some left out
Published = dict[Any, dict[Any, float]]  # by line, then by value of the swept field


class Found(NamedTuple):
    """A study's runs in the store."""

    runs: dict[str, Run]  # complete ones by id
    choices: list[Choice]  # of its search; empty where there is none
    wanted: list[Setting]  # all that should be there
    begun: dict[str, Run] = {}  # noqa: RUF012 unfinished ones, by the id they will have
    damaged: dict[str, str] = {}  # noqa: RUF012 run id -> what is wrong with it; they count as missing
    rows: dict[tuple[str, int], int] = {}  # noqa: RUF012 (data set, clients) -> test rows, where it is known


class Panel(NamedTuple):
    """One group, at one value of the field that has a figure a value."""

    figure: Any
    group: str
    curves: dict[Any, Curve]  # by line
    settings: dict[Any, list[Setting]] = {}  # noqa: RUF012 by line
    apart: Apart = {}  # noqa: RUF012 every two lines; in the paper's way none
    published: Published = {}  # noqa: RUF012 the paper's own results, where they are drawn beside ours


def load(study: Study, store: Store, live: bool = False) -> Found:
    """What the store holds of a study; live: with what is still training, and though nothing may be there yet."""
    reading = store if isinstance(store, Reading) else Reading(store.root)
    reading.damaged.clear()
    reading.relevant = ()
    found = _search_so_far(study, reading) if study.tune else []
    study, tried = extended(study, found), [s for choice in found for s in choice.cell.grid.values()]
    done = [s.run_id for s in (*study.settings, *tried) if reading.complete(s.run_id)]
    runs = {run_id: run for run_id in done if (run := reading.sound(run_id))}
    begun = _begun(study, reading, runs, found, live)
    if not live and not runs and not any(choice.stages for choice in found):
        raise BadInput(_nothing(study, reading))
    for key, metrics in (("metric", [study.report.metric]), ("also", study.report.also)):
        for metric in metrics:
            _measured(study, key, metric, [*runs.values(), *begun.values()])
    rows = _test_rows(study) if study.report.spread == "interval" else {}
    return Found(runs, found, wanted(found) if study.tune else study.settings, begun, dict(reading.damaged), rows)


def _search_so_far(study: Study, reading: Reading) -> list[Choice]:
    """A search as far as the store goes, the rates among them that it added itself."""
    tried = [s for cell in cells(study) for s in cell.grid.values()]
    whole, found = study, list[Choice]()
    while not (relevant := {s.kin for s in (*whole.settings, *tried)}) <= set(reading.relevant):
        reading.relevant = relevant
        found = choices(study, reading)
        tried, whole = [s for choice in found for s in choice.cell.grid.values()], extended(study, found)
    return found


def _begun(
    study: Study, reading: Reading, runs: Mapping[str, Run], found: Sequence[Choice], live: bool
) -> dict[str, Run]:
    """Runs that are not complete: what a search left of them, and as far as they are trained where one looks on."""
    shorter = reading.kin() if study.tune else {}
    for s in [s for choice in found for s in choice.missing] if live else []:
        shorter.setdefault(s.kin, {}).setdefault(s.rounds, s.run_id)
    begun = {}
    for s in study.settings:
        if s.run_id not in runs:
            own = {rounds: run_id for rounds, run_id in shorter.get(s.kin, {}).items() if rounds < s.rounds}
            ids = [*([s.run_id] if live else []), *(own[rounds] for rounds in sorted(own, reverse=True))]
            there = [run for run in map(reading.sound, ids) if run]
            if there:
                begun[s.run_id] = max(there, key=lambda run: float(run.metrics["round"][-1]))
    return begun


def _nothing(study: Study, reading: Reading) -> str:
    if reading.damaged:
        return f"report: no run of study {study.name!r} can be read; {next(iter(reading.damaged.values()))}"
    hint = "'baton tune' searches" if study.tune else "'baton sweep' trains them"
    return f"report: no complete run of study {study.name!r} in {reading.root}; {hint}"


def _measured(study: Study, key: str, metric: str, runs: Sequence[Run]) -> None:
    taken = {name for run in runs for name, x in run.metrics.items() if not np.isnan(x).all()} - {"round"}
    known = taken or {*MEASURED, *EXACT}
    if metric not in known:
        where = "" if key == "metric" else f"[report] {key}: "
        raise BadInput(f"report: {where}no run of study {study.name!r} measured {metric!r}; {nearest(metric, known)}")


def panels(study: Study, found: Found) -> list[Panel]:
    """Every panel of a study: by value of the figures field, then by group."""
    report, made = study.report, []
    search = _search(study, found)
    for group, listed in study.groups.items():
        settings = list({s.run_id: s for s in listed}.values())
        extra = splits(study, settings)
        cells: dict[tuple[Any, ...], list[Setting]] = {}
        for setting in settings:
            key = (study.at(setting, report.figures), *(study.at(setting, field) for field in extra))
            cells.setdefault(key, []).append(setting)
        for (figure, *rest), own in cells.items():
            named = ", ".join(words.told(study, dict(zip(extra, rest, strict=True))))
            label = ", ".join(filter(None, (group if group != "all" or not named else "", named)))
            by_line = {
                line: [s for s in own if study.at(s, report.lines) == line] for line in study.values(report.lines, own)
            }
            curves = {line: curve(alike, found.runs, report, search, found.begun) for line, alike in by_line.items()}
            made.append(Panel(figure, label, curves, by_line, _apart(curves, report, Tested(found.rows))))
    order = study.values(report.figures)
    return sorted(made, key=lambda panel: order.index(panel.figure))


def _apart(curves: Mapping[Any, Curve], report: Report, tested: Tested) -> Apart:
    return apart(curves, report, tested) if report.spread == "interval" else {}


def judged(study: Study, panels: Sequence[Panel], found: Found, answers: Answers) -> list[Panel]:
    """The same panels, their lines told apart by the answers of their final models to each test row."""
    metric = study.report.metric
    if study.report.spread != "interval" or not sampled(metric):
        return list(panels)
    tested = Tested(found.rows, answers([s for p in panels for s in shown(p.curves, p.settings)], metric))
    return [panel._replace(apart=_apart(panel.curves, study.report, tested)) for panel in panels]


def _test_rows(study: Study) -> dict[tuple[str, int], int]:
    """How many test rows each data set has; those that are not here are left out."""
    rows = {}
    for spec, clients in dict.fromkeys((s.dataset, s.clients) for s in study.settings):
        with suppress(BadInput):
            if path(spec, datasets.LOADERS):  # a user's own: nothing of a stored run's is imported to look at it
                continue
            rows[spec, clients] = len(datasets.load(spec, clients).test_y)
    return rows


def _search(study: Study, found: Found) -> Search | None:
    if study.tune is None:
        return None
    chosen = {s.run_id for choice in found.choices for s in choice.chosen}
    gone = {s.run_id for c in found.choices if c.stages and not c.best for s in c.cell.final.values()}
    return Search(study.swept, chosen, {s.run_id for s in found.wanted}, gone)


def splits(study: Study, settings: Sequence[Setting]) -> list[str]:
    """Fields in which runs differ that agree in all known ones: without panels of their own they would be mixed.

    An option that is swept is not among the known: specs that do not have it would agree with no other.
    """
    fields = [f for f in (*Setting.model_fields, *study.options) if f not in study.swept or f in Setting.model_fields]
    known = [f for f in (*study.swept, study.report.lines, study.report.figures, "seed") if f in fields]
    same: dict[tuple[Any, ...], list[Setting]] = {}
    for setting in settings:
        same.setdefault(tuple(study.at(setting, field) for field in known), []).append(setting)
    return [f for f in fields if any(len(study.values(f, alike)) > 1 for alike in same.values())]


def ahead(panel: Panel, report: Report) -> Any | None:
    """The line better than every other by more than the margin; None if there is none, or if one is not there yet."""
    found = ahead_together(panel, report)
    return found[0] if len(found) == 1 else None


def ahead_together(panel: Panel, report: Report) -> tuple[Any, ...]:
    """The lines better than all others by more than the margin, the best first; () where there is no such gap."""
    if len(panel.curves) < 2 or any(curve.best is None for curve in panel.curves.values()):
        return ()
    if report.spread == "interval":
        return apart_leaders(panel.curves, report, panel.apart)
    sign = report.sign
    scores = {line: sign * c.best.mean if c.best and not c.best.lost else -np.inf for line, c in panel.curves.items()}
    return leaders(scores, report)


def leader(scores: Mapping[Any, float], report: Report) -> Any | None:
    """The highest of two or more scores, if it is higher than every other by more than the margin."""
    found = leaders(scores, report)
    return found[0] if len(found) == 1 else None


def leaders(scores: Mapping[Any, float], report: Report) -> tuple[Any, ...]:
    """The highest scores, down to the first gap wider than the margin; () if there is none.

    On a log axis a margin has no fixed size, so that plainly better is ahead.
    """
    ranked = sorted(scores, key=lambda line: scores[line], reverse=True)
    margin = 0.0 if report.log else report.margin
    for place in range(1, len(ranked)):
        if scores[ranked[place - 1]] - scores[ranked[place]] > margin:
            return tuple(ranked[:place])
    return ()
