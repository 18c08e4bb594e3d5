"""What is inside a panel: curves over rounds, or the end of training against the swept field."""

import re
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea, VPacker
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from baton.report.bands import drawn, logs, visible
from baton.report.grid import Panel
from baton.report.sheets import Look, Sheet, chosen, places, swept, valued
from baton.study import Study

LETTERS = 17  # of the smallest print, an inch
ENDS = ("mean", "low", "high")
STAR: dict[str, Any] = {"marker": "*", "markersize": 7, "markerfacecolor": "white", "markeredgewidth": 0.8, "zorder": 3}


def over_rounds(ax: Axes, panel: Panel, look: dict[Any, Look], study: Study, metric: str) -> None:
    """A curve a line at its best value, shaded over seeds; dotted where it is unfinished."""
    for line, curve in panel.curves.items():
        band, k = drawn(curve.drawn, metric, study.report), look[line]
        ax.fill_between(band.rounds, band.low, band.high, color=k.colour, alpha=0.2, linewidth=0)
        dash = k.dash if curve.done else ":"
        ax.plot(band.rounds, band.mean, color=k.colour, linestyle=dash, linewidth=1.3)
    _scale(ax, logs(study.report, metric))
    ax.margins(x=0.01)


def over_field(ax: Axes, panel: Panel, look: dict[Any, Look], study: Study, sheet: Sheet) -> None:
    """The summary at each value of the swept field; ringed: the best, crossed: what diverged, stars: the paper's."""
    report, metric = study.report, sheet.metrics[0]
    place = _places(ax, study, sheet)
    for nth, (line, curve) in enumerate(panel.curves.items()):
        sound, k = sorted((p for p in curve.points if not p.lost), key=lambda p: place[p.value]), look[line]
        x = [place[p.value] for p in sound]
        y, low, high = (visible(np.array([getattr(p, e) for p in sound]), metric, report) for e in ENDS)
        bars = np.maximum(0, [y - low, high - y])
        ax.errorbar(
            x, y, bars, color=k.colour, fmt=k.marker, linestyle=k.dash, markersize=3.5, linewidth=1.2, capsize=2
        )
        gone = [place[p.value] for p in curve.points if p.lost]
        theirs = {place[value]: y for value, y in panel.published.get(line, {}).items() if value in place}
        if theirs:
            y = visible(np.array([*theirs.values()]), metric, report)
            ax.plot([*theirs], y, linestyle="", markeredgecolor=k.colour, **STAR)
        edge = 0.04 + 0.07 * nth  # along the worse edge, since there is no number to place them by
        height = edge if report.best == "max" else 1 - edge
        ax.plot(gone, [height] * len(gone), "x", color=k.colour, markersize=5, transform=ax.get_xaxis_transform())
        if curve.best and not curve.best.lost:
            best = visible(np.array([curve.best.mean]), metric, report)
            ring = {"markerfacecolor": "none", "markeredgecolor": k.colour, "markersize": 9}
            ax.plot([place[curve.best.value]], best, "o", **ring)  # type: ignore[arg-type]
    _scale(ax, logs(report, metric))
    ax.margins(y=0.12)  # room for the ring of a best value at the edge


def _places(ax: Axes, study: Study, sheet: Sheet) -> dict[Any, float]:
    """Where each value of the swept field lies, with its ticks."""
    text = valued(study)
    place, log = places(sheet)
    names = {x: _tex(text(value)) for value, x in place.items()}
    if log:
        ax.set_xscale("log")
        ax.set_xlim(min(names) / 1.25, max(names) * 1.25)
        if max(names) < 100 * min(names) or any("^" in name for name in names.values()):
            ax.xaxis.set_major_locator(FixedLocator(list(names)))  # too few decades to read a value from
        ax.xaxis.set_minor_locator(FixedLocator(list(names)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: names.get(float(x), f"{x:g}")))
        ax.xaxis.set_minor_formatter(NullFormatter())
        return place
    ax.set_xticks(list(names), list(names.values()))
    ax.set_xlim(-0.5, len(names) - 0.5)
    if max(map(len, names.values()), default=0) > 8:
        ax.tick_params(axis="x", labelrotation=90, labelsize=7)
    return place


def _scale(ax: Axes, log: bool) -> None:
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(numticks=7))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_minor_locator(NullLocator())


def above(ax: Axes, panel: Panel, look: dict[Any, Look], study: Study, width: float) -> int:
    """The chosen values in their lines' colours, above a panel so many inches wide, where no curve runs: its rows."""
    field, found = swept(study), chosen(panel, study)
    if not field or not any(curve.drawn for curve in panel.curves.values()):
        return 0
    told = [] if "," in field else [(field, "#555555")]
    told += [(text, look[line].colour) for line, text in found.items()]
    rows: list[list[tuple[str, str]]] = [[]]
    for text, colour in told:
        if rows[-1] and sum(len(each) + 2 for each, _ in rows[-1]) + len(text) > LETTERS * width:
            rows.append([])
        rows[-1].append((text, colour))
    lines: list[Artist] = [
        HPacker(
            children=[TextArea(_tex(text), textprops={"fontsize": 7.5, "color": colour}) for text, colour in row],
            pad=0,
            sep=6,
            align="baseline",
        )
        for row in rows
    ]
    packed = VPacker(children=lines, pad=0, sep=2, align="left")
    box = {"bbox_to_anchor": (0, 1), "bbox_transform": ax.transAxes, "borderpad": 0.2}
    ax.add_artist(AnchoredOffsetbox("lower left", child=packed, pad=0, frameon=False, **box))  # type: ignore[arg-type]
    return len(rows)


def _tex(text: str) -> str:
    """`10^-1.5` as it is set in print."""
    return re.sub(r"10\^(-?[\d.]+)", r"$10^{\1}$", text)
