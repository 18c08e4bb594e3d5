"""What it takes each line to come to a target: rounds, bytes and modelled seconds."""

from collections.abc import Sequence

import numpy as np

from baton.ledger import Rates
from baton.report import words
from baton.report.bands import drawn
from baton.report.cost import assumed, cost
from baton.report.grid import Panel
from baton.report.sheets import metric_name
from baton.study import Study


def heads(study: Study) -> list[str]:
    """Above the columns of rows."""
    report = study.report
    wanted = f"rounds to {words.value(report.target)} {metric_name(report.metric)}"
    return [*([report.figures] if report.figures else []), "group", "line", wanted, "MB", "seconds"]


def caption(rates: Rates) -> str:
    """What is counted."""
    return f"At the first evaluation whose mean over seeds is there. Seconds are modelled: {assumed(rates)}."


def rows(study: Study, panels: Sequence[Panel], rates: Rates) -> list[list[str]]:
    """A row a line and panel: at the first evaluation whose mean over seeds is there."""
    report, names, made = study.report, words.lines(study), []
    assert report.target is not None
    for panel in panels:
        for line, curve in panel.curves.items():
            head = [*([words.value(panel.figure)] if report.figures else []), panel.group, names[line]]
            if not curve.done:
                made.append([*head, "not run", "", ""])
                continue
            band = drawn(curve.drawn, report.metric, report)
            there = np.flatnonzero(report.sign * band.mean >= report.sign * report.target)
            if not len(there):
                made.append([*head, "not reached", "", ""])
                continue
            spent, at = cost(curve.drawn, report, rates), int(there[0])
            more = [_short(float(spent.megabytes[at])), _short(float(spent.seconds[at]))] if spent else ["", ""]
            made.append([*head, f"{band.rounds[at]:,.0f}", *more])
    return made


def _short(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"
