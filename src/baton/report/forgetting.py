"""What hand-overs do to sites: a figure of each site's metric along a round, and what turns gain and cost."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from baton.measure.forgetting import Hops
from baton.report import words
from baton.report.figures import METADATA, STYLE, WIDTH, save
from baton.report.grid import Panel
from baton.report.sheets import heading
from baton.setting import Setting
from baton.study import Study

CAPTION = (
    "Every site's metric after every turn of a round, trained again with its own draws (first seed). Marked: a site at "
    "its own turn. Gain: what its turn gives a site. Lost: what later turns, or averaging, take from that by the end."
)
FEW = 10  # sites that have colours
SHOWN = 2  # rounds drawn of each line: the first and the last that were looked at


class Told(NamedTuple):
    """Rounds of one line's first run in one panel."""

    panel: Panel
    line: Any
    hops: list[Hops]


def load(study: Study, panels: Sequence[Panel], hops: Callable[[Setting], list[Hops]]) -> list[Told]:
    """Of each line's best value, its first seed."""
    del study
    curves = [(panel, line, curve) for panel in panels for line, curve in panel.curves.items()]
    done = ((p, line, c.drawn[0]) for p, line, c in curves if c.done and c.drawn[0].diverged is None)
    return [Told(p, line, found) for p, line, run in done if (found := hops(run.setting))]


def table(study: Study, told: Sequence[Told]) -> tuple[list[str], list[list[str]]]:
    """(heads, rows): a row a round that was looked at."""
    names, rows = words.lines(study), []
    for each in told:
        for hops in each.hops:
            visits = hops.visits()
            means = [
                float(np.mean([getattr(v, key) for v in visits])) if visits else np.nan for key in ("gain", "cost")
            ]
            cells = [*means, np.nan if hops.advantage is None else hops.advantage]
            told_ = ["" if np.isnan(x) else f"{x:+.4g}" for x in cells]
            rows.append([each.panel.group, names[each.line], str(hops.round), *told_])
    return ["group", "line", "round", "gain of a site's own turn", "lost by the end", "the last site's advantage"], rows


def render(study: Study, told: Sequence[Told]) -> dict[str, bytes]:
    """A row a line: sites along the turns of the first and the last round; the file's bytes by suffix."""
    names = words.lines(study)
    with style.context(STYLE):
        fig = Figure(figsize=(WIDTH, 2.5 * len(told) + 0.3), layout="constrained")
        axes = fig.subplots(len(told), SHOWN, squeeze=False, sharey=True)
        for row, each in zip(axes, told, strict=True):
            shown = list(dict.fromkeys([each.hops[0].round, each.hops[-1].round])) if each.hops else []
            for ax, round in zip(row, [*shown, *[None] * SHOWN], strict=False):
                if round is None:
                    ax.set_visible(False)
                    continue
                hops = next(h for h in each.hops if h.round == round)
                whole = (heading(each.panel, study), names[each.line], f"round {round}")
                ax.set_title(", ".join(filter(None, whole)), loc="left", parse_math=False)
                _draw(ax, hops)
        for ax in axes[-1]:
            ax.set_xlabel("turn")
        first = next((each.hops[0].metric for each in told if each.hops), "")
        sites = told[0].hops[0].names
        if len(sites) <= FEW:
            marks = [Line2D([], [], color=f"C{i}", marker="o", markersize=4, linewidth=1.0) for i in range(len(sites))]
            fig.legend(marks, [name[:24] for name in sites], loc="outside upper center", ncols=5, frameon=False)
        fig.supylabel(words.MEASURES.get(first, first), fontsize=9)
        fig.draw_without_rendering()
        fig.set_layout_engine("none")
        return {suffix: save(fig, suffix) for suffix in METADATA}


def _draw(ax: Axes, hops: Hops) -> None:
    """A line a site along the turns of a round; where they are side by side, through its own turn to the average."""
    table = np.array([hops.begin, *hops.made], dtype=float)  # [hops + 1, k]; None is nan
    visits, few = {v.site: v for v in hops.visits()}, len(hops.names) <= FEW
    for site in range(len(hops.names)):
        own, colour = visits.get(site), f"C{site}" if few else "#999999"
        y = table[:, site]
        if not hops.chain:
            middle = y[own.hop + 1] if own else np.nan
            y = np.array([hops.begin[site], middle, hops.end[site]], dtype=float)
        kept = ~np.isnan(y)
        ax.plot(np.arange(len(y))[kept], y[kept], color=colour, linewidth=1.0, alpha=0.9 if few else 0.4)
        if own:
            at = (own.hop + 1 if hops.chain else 1, own.after)
            ax.plot(*([x] for x in at), "o", color=colour, markersize=4)
    if hops.chain:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        ax.set_xticks([0, 1, 2], ["given", "its own turn", "averaged"])
