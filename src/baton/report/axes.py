"""What is inside a panel: curves over rounds, or the end of training against the swept field."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from baton.report import words
from baton.report.curves import Array, Curve, Point, Report, values
from baton.report.grid import Panel
from baton.study import Study

FLOOR = 1e-17  # log axes end here: below float64's resolution of 1, distances are rounding and exact zeros
CEILING = 1e12  # all axes end here: past it a run has diverged in all but name
Dash = Literal["-", "--", ":", "-."]
DASHES: tuple[Dash, ...] = ("-", "-", "--", ":", "-.")  # a third line on top of another lets it show


class Look(NamedTuple):
    """Name, colour and mark of a line, the same in every figure of a study."""

    label: str
    colour: str
    marker: str
    dash: Dash


def looks(study: Study) -> dict[Any, Look]:
    """How each line of a study is drawn."""
    field = study.report["lines"]
    lines = values(study.settings, field)
    names, colours = words.labels(field, lines), words.colours(field, lines)
    return {
        line: Look(names[line], colours[line], "osD^vP"[i % 6], DASHES[i % len(DASHES)]) for i, line in enumerate(lines)
    }


def _shown(x: Array, report: Report) -> Array:
    """What an axis can show: no zeros on a log axis, nothing on its way to infinity, no spread past 0 or 100 %."""
    top = 100.0 if report["metric"].endswith("accuracy") else CEILING
    return np.clip(x, FLOOR if report["log"] else 0.0, top)


def over_rounds(ax: Axes, panel: Panel, look: dict[Any, Look], report: Report) -> None:
    """A curve a line at its best value, shaded over seeds."""
    for line, curve in panel.curves.items():
        kept = np.isfinite(curve.mean)
        mean, low, high = (_shown(x[kept], report) for x in (curve.mean, curve.low, curve.high))
        ax.fill_between(curve.rounds[kept], low, high, color=look[line].colour, alpha=0.2, linewidth=0)
        ax.plot(curve.rounds[kept], mean, color=look[line].colour, linestyle=look[line].dash, linewidth=1.3)
    _scale(ax, report)
    ax.margins(x=0.01)
    _chosen(ax, panel.curves, look, report)


def over_field(ax: Axes, panel: Panel, look: dict[Any, Look], report: Report) -> None:
    """The summary at each value of the swept field; the best is ringed, what diverged is crossed."""
    every = list(dict.fromkeys(p.value for curve in panel.curves.values() for p in curve.points))
    place = _places(ax, every)
    for nth, (line, curve) in enumerate(panel.curves.items()):
        sound, k = [p for p in curve.points if not p.lost], look[line]
        x, y = [place[p.value] for p in sound], _shown(np.array([p.mean for p in sound]), report)
        low, high = (_shown(np.array([getattr(p, end) for p in sound]), report) for end in ("low", "high"))
        bars = np.maximum(0, [y - low, high - y])
        ax.errorbar(
            x, y, bars, color=k.colour, fmt=k.marker, linestyle=k.dash, markersize=3.5, linewidth=1.2, capsize=2
        )
        gone = [place[p.value] for p in curve.points if p.lost]
        edge = 0.04 + 0.07 * nth  # along the worse edge, since there is no number to place them by
        height = edge if report["best"] == "max" else 1 - edge
        ax.plot(gone, [height] * len(gone), "x", color=k.colour, markersize=5, transform=ax.get_xaxis_transform())
        if curve.best and not curve.best.lost:
            best = _shown(np.array([curve.best.mean]), report)
            ax.plot(
                [place[curve.best.value]], best, "o", markersize=9, markerfacecolor="none", markeredgecolor=k.colour
            )
    _scale(ax, report)
    ax.margins(y=0.12)  # room for the ring of a best value at the edge
    _chosen(ax, panel.curves, look, report)


def _places(ax: Axes, every: Sequence[Any]) -> dict[Any, float]:
    """Where each value of the swept field lies: on a log axis if they are numbers above 0, side by side if not."""
    if all(isinstance(x, int | float) and x > 0 for x in every):
        ax.set_xscale("log")
        if max(every) < 100 * min(every):  # too few decades to read a value from
            ax.xaxis.set_major_locator(FixedLocator(every))
        ax.xaxis.set_minor_locator(FixedLocator(every))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: words.value(float(x))))
        ax.xaxis.set_minor_formatter(NullFormatter())
        return {x: float(x) for x in every}
    ax.set_xticks(range(len(every)), [words.value(x) for x in every])
    return {x: float(i) for i, x in enumerate(every)}


def _scale(ax: Axes, report: Report) -> None:
    if report["log"]:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(numticks=7))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_minor_locator(NullLocator())


def _chosen(ax: Axes, curves: dict[Any, Curve], look: dict[Any, Look], report: Report) -> None:
    """The chosen values, each in its line's colour, above the panel where no curve runs."""
    if not report["over"]:
        return
    parts: list[Artist] = [TextArea(report["over"], textprops={"fontsize": 7.5, "color": "#555555"})]
    for line, curve in curves.items():
        parts.append(TextArea(_choice(curve.best), textprops={"fontsize": 7.5, "color": look[line].colour}))
    row = HPacker(children=parts, pad=0, sep=6, align="baseline")
    box = {"bbox_to_anchor": (0, 1), "bbox_transform": ax.transAxes, "borderpad": 0.2}
    ax.add_artist(AnchoredOffsetbox("lower left", child=row, pad=0, frameon=False, **box))  # type: ignore[arg-type]


def _choice(best: Point | None) -> str:
    if best is None:
        return "not run"
    return "diverged" if best.lost else words.value(best.value)
