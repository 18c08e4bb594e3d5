"""Figures: a panel a group, a curve a line; and the end of training against the swept field.

Drawn without pyplot and without touching anybody's rcParams. The same store gives the same bytes.
"""

import io
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from baton.report.axes import STAR, above, over_field, over_rounds
from baton.report.grid import Panel
from baton.report.sheets import LONG, Look, Sheet, heading, looks, metric_name, places, sheets, valued
from baton.study import Study

LINE, FEW = 0.2, 4  # inches of a legend's line; so many of them a panel has room for
WIDTH, PANEL = 10.8, 3.6  # inches of a whole figure and of a panel, at most
METADATA: dict[str, dict[str, Any]] = {  # no dates, so that equal figures are equal files
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
STYLE: list[Any] = [
    "default",
    {
        "font.size": 9,
        "axes.titlesize": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#888888",
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.6,
        "xtick.color": "#888888",
        "ytick.color": "#888888",
        "xtick.labelcolor": "#333333",
        "ytick.labelcolor": "#333333",
        "svg.hashsalt": "baton",
        "pdf.fonttype": 42,
        "savefig.dpi": 160,
    },
]


class Drawing(NamedTuple):
    """One figure in all its formats."""

    kind: str  # "curves" or the swept field
    figure: Any  # value of the figures field
    files: dict[str, bytes]  # by suffix


def draw(study: Study, panels: Sequence[Panel]) -> list[Drawing]:
    """Every figure of a study, by value of the figures field."""
    return [Drawing(sheet.kind, sheet.figure, render(study, sheet)) for sheet in sheets(study, panels)]


def render(study: Study, sheet: Sheet, suffixes: Sequence[str] = tuple(METADATA)) -> dict[str, bytes]:
    """One figure as files; the file's bytes by suffix."""
    report, look, panels = study.report, looks(study), sheet.panels
    across = max(1, min(report.columns, len(panels)))
    down = -(-len(panels) // across)
    width = min(PANEL, WIDTH / max(1, report.columns))
    height = min(2.45 if sheet.kind == "curves" else 2.05, max(1.65, 0.95 * width)) + _below(study, sheet)
    with style.context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter the font lacks is drawn as a box
        wide = max(width * across, 5.0)
        handles, columns = _legend(look, sheet, wide)
        told = max(0, -(-len(handles) // columns) - FEW) * LINE
        size = (wide, height * down * len(sheet.metrics) + 0.4 + told)
        fig = Figure(figsize=size, layout="constrained")
        axes = fig.subplots(down * len(sheet.metrics), across, squeeze=False, sharey="row")
        for row, metric in enumerate(sheet.metrics):
            for place, ax in enumerate(axes[row * down : (row + 1) * down].flat):
                if place >= len(panels):
                    ax.set_visible(False)
                    continue
                _panel(ax, panels[place], look, study, sheet, metric)
                if row == 0 or down > 1:
                    whole = heading(panels[place], study).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
                    title = "\n".join(textwrap.wrap(whole, max(12, int(width * 11))))
                    rows = above(ax, panels[place], look, study, wide / across - 0.7)
                    ax.set_title(title, loc="left", pad=6 + 9.5 * rows, parse_math=False)
                if place + across >= len(panels) and row == len(sheet.metrics) - 1:
                    below = "round" if sheet.kind == "curves" else LONG.get(sheet.kind, sheet.kind)
                    ax.set_xlabel("\n".join(textwrap.wrap(below, max(12, int(wide / across * 13)))))
                if place % across == 0 and len(sheet.metrics) > 1:
                    ax.set_ylabel("\n".join(textwrap.wrap(metric_name(metric), int(height * 11))), fontsize=8)
        if len(sheet.metrics) == 1:
            fig.supylabel(metric_name(sheet.metrics[0]), fontsize=9)
        legend = fig.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
        fig.draw_without_rendering()
        fig.set_layout_engine("none")  # laid out once, not again for each format
        return {suffix: save(fig, suffix) for suffix in suffixes}


def _below(study: Study, sheet: Sheet) -> float:
    """Inches that a panel is higher for long names of swept values, which stand upright below it."""
    place, log = ({}, True) if sheet.kind == "curves" else places(sheet)
    longest = 0 if log else max(map(len, map(valued(study), place)), default=0)
    return 0.09 * max(0, longest - 24)  # so many letters a panel has room for


def _panel(ax: Axes, panel: Panel, look: dict[Any, Look], study: Study, sheet: Sheet, metric: str) -> None:
    if not any(curve.drawn for curve in panel.curves.values()):
        ax.text(0.5, 0.5, "no complete run yet", ha="center", color="#555555", transform=ax.transAxes)
        ax.set_xticks([])
    elif sheet.kind == "curves":
        over_rounds(ax, panel, look, study, metric)
    else:
        over_field(ax, panel, look, study, sheet)


def _legend(look: dict[Any, Look], sheet: Sheet, wide: float) -> tuple[list[Line2D], int]:
    """What it names, and in how many columns."""
    shown = _handles(look, sheet.kind != "curves", sheet.panels)
    widest = 0.6 + 0.08 * max(len(str(handle.get_label())) for handle in shown)  # inches, about
    return shown, min(len(shown), max(1, int(wide / widest)))


def save(fig: Figure, suffix: str) -> bytes:
    """A drawn figure as a file."""
    data = io.BytesIO()
    fig.savefig(data, format=suffix, metadata=METADATA[suffix])
    return data.getvalue()


def _handles(look: dict[Any, Look], sweep: bool, panels: Sequence[Panel]) -> list[Line2D]:
    there = {line for panel in panels for line in panel.curves}
    shown = [
        Line2D([], [], color=k.colour, linestyle=k.dash, marker=k.marker if sweep else "", markersize=4, label=k.label)
        for line, k in look.items()
        if line in there
    ]
    if sweep:
        ring = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgecolor": "#333333"}
        shown.append(Line2D([], [], linestyle="", label="best", **ring))  # type: ignore[arg-type]
        if any(curve.lost for panel in panels for curve in panel.curves.values()):
            shown.append(Line2D([], [], linestyle="", marker="x", color="#333333", markersize=5, label="diverged"))
        if any(panel.published for panel in panels):
            shown.append(Line2D([], [], linestyle="", label="the paper", markeredgecolor="#333333", **STAR))
    return shown
