"""A figure of what lines cost: a row a panel; the metric against rounds, bytes and modelled seconds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from baton.ledger import Rates
from baton.report.bands import logs
from baton.report.cost import Cost, costs, level
from baton.report.figures import METADATA, STYLE, WIDTH, save
from baton.report.grid import Panel
from baton.report.sheets import Look, heading, looks, metric_name
from baton.study import Report, Study

AXES = ("round", "megabytes sent", "modelled seconds")


def render(study: Study, panels: Sequence[Panel], rates: Rates) -> dict[str, bytes]:
    """The figure as files; the file's bytes by suffix."""
    report, look = study.report, looks(study)
    every = [(panel, costs(panel, report, rates)) for panel in panels]
    every = [(panel, found) for panel, found in every if found]
    with style.context(STYLE):
        fig = Figure(figsize=(WIDTH, 2.5 * len(every) + 0.5), layout="constrained")
        axes = fig.subplots(len(every), len(AXES), squeeze=False, sharey="row")
        for row, (panel, found) in zip(axes, every, strict=True):
            row[0].set_title(heading(panel, study), loc="left", parse_math=False)
            for line, own in found.items():
                _line(row, own, look[line])
            for ax in row[1:]:
                ax.set_xscale("log")
            _scale(row, found, report)
            for ax in row[1:]:
                _ticks(ax)
        for ax, label in zip(axes[-1], AXES, strict=True):
            ax.set_xlabel(label)
        fig.supylabel(metric_name(report.metric), fontsize=9)
        there = {line for _, found in every for line in found}
        shown = [Line2D([], [], color=k.colour, linestyle=k.dash, label=k.label) for x, k in look.items() if x in there]
        legend = fig.legend(handles=shown, loc="outside upper center", ncols=min(4, len(shown)), frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
        fig.draw_without_rendering()
        fig.set_layout_engine("none")  # laid out once, not again for each format
        return {suffix: save(fig, suffix) for suffix in METADATA}


def _line(row: Sequence[Axes], own: Cost, k: Look) -> None:
    """One line in a row's three panels; its start is nowhere on a log axis."""
    for ax, x in zip(row, (own.band.rounds, own.megabytes, own.seconds), strict=True):
        kept = x > 0
        ax.plot(x[kept], own.band.mean[kept], color=k.colour, linestyle=k.dash, linewidth=1.3)
        ax.fill_between(x[kept], own.band.low[kept], own.band.high[kept], color=k.colour, alpha=0.15, linewidth=0)


def _scale(row: Sequence[Axes], found: Mapping[Any, Cost], report: Report) -> None:
    """Of accuracies the upper part, where lines differ, and what leads there."""
    if logs(report, report.metric):
        row[0].set_yscale("log")
    elif report.metric.endswith("accuracy"):
        top, end = max(float(own.band.high.max()) for own in found.values()), level(found, report.best)
        low = max(0.0, end - 3 * (top - end) - 15)
        row[0].set_ylim(low, min(100.0, math.ceil(top + 1)))
        for ax, x in zip(row[1:], ("megabytes", "seconds"), strict=True):
            shown = np.concatenate([getattr(own, x)[own.band.mean >= low] for own in found.values()])
            if (shown > 0).any():
                ax.set_xlim(shown[shown > 0].min() / 1.5, shown.max() * 1.3)


def _ticks(ax: Axes) -> None:
    """On a log axis of few decades plain numbers, 20 50 100; powers of ten otherwise."""
    low, high = ax.get_xlim()
    if high / low < 10**2.5:
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
