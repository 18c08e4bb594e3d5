"""What is on each figure, and how its lines look; nothing is drawn here."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from baton.report import words
from baton.report.bands import FLOOR, window
from baton.report.grid import Panel
from baton.report.published import results
from baton.study import Study

Dash = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "-", "--", ":", "-.")  # a third line on top of another lets it show
LONG = {"lr": "learning rate", "clip": "largest gradient norm"}


class Look(NamedTuple):
    """Name, colour and mark of a line, the same in every figure of a study."""

    label: str
    colour: str
    marker: str
    dash: Dash


class Sheet(NamedTuple):
    """One figure: a row of panels a metric."""

    kind: str  # "curves" or the swept field
    figure: Any  # value of the figures field
    panels: list[Panel]
    metrics: list[str]


def looks(study: Study) -> dict[Any, Look]:
    """How each line of a study is drawn."""
    field = study.report.lines
    lines = study.values(field)
    names, colours = words.lines(study), words.colours(field, lines)
    return {
        line: Look(names[line], colours[line], "osD^vP"[i % 6], DASHES[i % len(DASHES)]) for i, line in enumerate(lines)
    }


def sheets(study: Study, panels: Sequence[Panel]) -> list[Sheet]:
    """Every figure of a study, by value of the figures field."""
    found, report = [], study.report
    metrics = list(dict.fromkeys([report.metric, *report.also]))
    for figure in dict.fromkeys(panel.figure for panel in panels):
        own = [panel for panel in panels if panel.figure == figure]
        found.append(Sheet("curves", figure, own, metrics))
        if any(len(curve.points) > 1 for panel in own for curve in panel.curves.values()):
            beside = [panel._replace(published=results(study, panel)) for panel in own]
            found.append(Sheet(swept(study), figure, beside, metrics[:1]))
    return found


def name(study: Study, sheet: Sheet) -> str:
    """The name of a figure's files."""
    field = study.report.figures
    which = [field, words.value(sheet.figure)] if field else []
    return words.stem("-".join((words.stem(study.name), sheet.kind, *which)))


def swept(study: Study) -> str:
    """The field whose best value is chosen, or all that were searched together."""
    return ", ".join(study.swept)


def places(sheet: Sheet) -> tuple[dict[Any, float], bool]:
    """Where each swept value lies: by its number on a log axis if all are numbers above 0, side by side if not."""
    found = [p.value for panel in sheet.panels for curve in panel.curves.values() for p in curve.points]
    every = list(dict.fromkeys(found))
    if all(isinstance(x, int | float) and x > 0 for x in every):
        return {x: float(x) for x in sorted(every)}, True
    return {x: float(i) for i, x in enumerate(every)}, False


def valued(study: Study) -> Callable[[Any], str]:
    """How a swept value is written."""
    field = swept(study)
    names = words.names(study, field) if field and "," not in field else {}
    return lambda x: names.get(x, words.value(x))


def heading(panel: Panel, study: Study) -> str:
    """What stands above a panel; nothing where there is only one kind of run."""
    return panel.group if len(study.groups) > 1 or panel.group != "all" else ""


def chosen(panel: Panel, study: Study) -> dict[Any, str]:
    """By line: the value it is drawn at, or why there is none."""
    text, found = valued(study), {}
    for line, curve in panel.curves.items():
        if curve.best is not None and curve.best.lost:
            found[line] = "diverged"
        elif curve.lead is None:
            found[line] = "not run"
        else:
            found[line] = text(curve.lead) + ("" if curve.done else " so far")
    return found


def metric_name(metric: str) -> str:
    """A metric in words."""
    return words.metric(metric)


def caption(study: Study, sheet: Sheet) -> tuple[str, str]:
    """The title of a figure, and what one has to know to read it."""
    report, field = study.report, swept(study)
    where = f", {words.called(study, report.figures, sheet.figure)}" if report.figures else ""
    several = "Training curves" if len(sheet.metrics) > 1 else f"{metric_name(sheet.metrics[0])} over rounds"
    if sheet.kind == "curves":
        title = f"{several}{where}"
        spread = "one standard deviation" if report.shade == "std" else "smallest to largest"
        alone = all(len(curve.drawn) < 2 for panel in sheet.panels for curve in panel.curves.values())
        note = "One seed a line." if alone else f"Mean over seeds; shaded: {spread}."
        if field:
            note += f" Each line at its best {LONG.get(field, field)}, written above the panel."
        note += _smoothed(study, sheet)
    else:
        title = f"{metric_name(sheet.metrics[0])} at the end against {LONG.get(field, field)}{where}"
        which = "95 % interval over seeds, of" if report.spread == "interval" else "standard deviation over seeds and"
        note = f"Mean and {which} {words.averaged(study, study.settings, report.last)}; ringed: the best."
        if any(panel.published for panel in sheet.panels):
            note += " Stars: the paper's."
    if report.log:
        note += f" What is below {FLOOR:g} is drawn there."
    return title[0].upper() + title[1:], note


def _smoothed(study: Study, sheet: Sheet) -> str:
    part = study.report.smooth
    counts = [len(curve.rounds) for panel in sheet.panels for curve in panel.curves.values()]
    side = window(max(counts, default=0), part)
    if not side:
        return ""
    return f" Smoothed: each point is the mean of {2 * side + 1} evaluations around it ({part:.0%}), fewer at the ends."
