"""Figures: a panel a group, a curve a line; and the end of training against the swept field.

Drawn without pyplot and without touching anybody's rcParams. The same store gives the same bytes.
"""

import io
import textwrap
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from baton.report import words
from baton.report.axes import Look, looks, over_field, over_rounds
from baton.report.curves import Report
from baton.report.grid import Panel
from baton.study import Study

Draw = Callable[[Axes, Panel, dict[Any, Look], Report], None]
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
    found, report = [], study.report
    for figure in dict.fromkeys(panel.figure for panel in panels):
        own = [panel for panel in panels if panel.figure == figure]
        found.append(Drawing("curves", figure, _render(own, study, over_rounds, "round", 2.45)))
        if any(len(curve.points) > 1 for panel in own for curve in panel.curves.values()):
            found.append(Drawing(report["over"], figure, _render(own, study, over_field, report["over"], 2.05)))
    return found


def _render(panels: Sequence[Panel], study: Study, one: Draw, xlabel: str, height: float) -> dict[str, bytes]:
    report, look = study.report, looks(study)
    across = max(1, min(report["columns"], len(panels)))
    down = -(-len(panels) // across)
    width = min(PANEL, WIDTH / max(1, report["columns"]))
    with style.context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter the font lacks is drawn as a box
        fig = Figure(figsize=(max(width * across, 5.0), height * down + 0.4), layout="constrained")
        axes = fig.subplots(down, across, squeeze=False, sharey="row")
        for place, ax in enumerate(axes.flat):
            if place >= len(panels):
                ax.set_visible(False)
                continue
            if any(curve.best for curve in panels[place].curves.values()):
                one(ax, panels[place], look, report)
            else:
                ax.text(0.5, 0.5, "no complete run yet", ha="center", color="#555555", transform=ax.transAxes)
                ax.set_xticks([])
            group = panels[place].group if len(study.groups) > 1 or panels[place].group != "all" else ""
            title = "\n".join(textwrap.wrap(group, max(12, int(width * 11))))
            ax.set_title(title, loc="left", pad=15 if report["over"] else 6, parse_math=False)
            if place + across >= len(panels):
                ax.set_xlabel(xlabel)
        fig.supylabel(words.METRICS.get(report["metric"], report["metric"]), fontsize=9)
        shown = _handles(look, one is over_field, panels)
        widest = 0.6 + 0.08 * max(len(str(handle.get_label())) for handle in shown)  # inches, about
        fits = max(1, int(fig.get_figwidth() / widest))
        legend = fig.legend(handles=shown, loc="outside upper center", ncols=min(len(shown), fits), frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
        fig.draw_without_rendering()
        fig.set_layout_engine("none")  # laid out once, not again for each format
        return {suffix: _save(fig, suffix) for suffix in METADATA}


def _save(fig: Figure, suffix: str) -> bytes:
    data = io.BytesIO()
    fig.savefig(data, format=suffix, metadata=METADATA[suffix])
    return data.getvalue()


def _handles(look: dict[Any, Look], sweep: bool, panels: Sequence[Panel]) -> list[Line2D]:
    shown = [
        Line2D([], [], color=k.colour, linestyle=k.dash, marker=k.marker if sweep else "", markersize=4, label=k.label)
        for k in look.values()
    ]
    if sweep:
        ring = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgecolor": "#333333"}
        shown.append(Line2D([], [], linestyle="", label="best", **ring))  # type: ignore[arg-type]
        if any(curve.lost for panel in panels for curve in panel.curves.values()):
            shown.append(Line2D([], [], linestyle="", marker="x", color="#333333", markersize=5, label="diverged"))
    return shown
