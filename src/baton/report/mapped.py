"""The figure of map.py: a panel for each K and S; colour by measurement, letters by the bounds."""

import io
from collections.abc import Sequence

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from baton.report import words
from baton.report.figures import METADATA, STYLE
from baton.report.map import Grid, Place

WIDEST = 3.0  # decades at which a colour is full
NOTE = (
    "Colour: by how many powers of ten the measured error of one side is the smaller one, both at their best rates; "
    "white: none.\nDot: no clear difference over seeds. Letters: s or p has the smaller bound, and by which factor; "
    "=: neither. Framed: measurement says otherwise."
)


def figure(grid: Grid, places: Sequence[Place], form: str) -> bytes:
    """A column a K, a row an S; delta to the right, zeta_* upwards."""
    colours = [words.ALGORITHM_COLOURS[name] for name in ("parallel", "sequential")]
    scale = LinearSegmentedColormap.from_list("sides", [colours[0], "#FFFFFF", colours[1]])
    across, down = len(grid.K), len(grid.S)
    size = (max(1.1 + (0.55 * len(grid.delta) + 0.5) * across, 6.5), 1.3 + (0.3 * len(grid.zeta) + 0.6) * down)
    with style.context(STYLE):
        fig = Figure(figsize=size, layout="constrained")
        axes = fig.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for row, S in enumerate(reversed(grid.S)):
            for column, K in enumerate(grid.K):
                own = [place for place in places if (place.K, place.S) == (K, S)]
                drawn = _panel(axes[row, column], grid, own, scale)
                axes[row, column].set_title(f"K = {K}, S = {S} of {grid.M}", loc="left", fontsize=9)
        for ax in axes[-1]:
            ax.set_xlabel("δ")
        for ax in axes[:, 0]:
            ax.set_ylabel("ζ*")
        bar = fig.colorbar(drawn, ax=axes, shrink=0.8, extend="both")
        bar.set_label("decades: parallel ahead below 0, sequential above", fontsize=8)
        fig.supxlabel(NOTE, fontsize=7.5)
        data = io.BytesIO()
        fig.savefig(data, format=form, metadata=METADATA[form])
        return data.getvalue()


def _panel(ax: Axes, grid: Grid, own: Sequence[Place], scale: LinearSegmentedColormap):  # type: ignore[no-untyped-def]
    values = np.full((len(grid.zeta), len(grid.delta)), np.nan)
    for place in own:
        at = grid.delta.index(place.delta), grid.zeta.index(place.zeta)
        values[at[1], at[0]] = np.nan_to_num(place.decades, nan=0.0, posinf=WIDEST, neginf=-WIDEST)
        letter = place.promised[:1] or "="
        if place.promised:
            most, least = max(place.bounds.values()), min(place.bounds.values())
            letter += f" {most / least:.3g}"
        wrong = bool(place.ahead and place.promised and place.ahead != place.promised)
        ink = "white" if abs(values[at[1], at[0]]) > 0.6 * WIDEST else "black"
        frame = {"boxstyle": "square,pad=0.15", "facecolor": "none", "edgecolor": ink, "linewidth": 0.8}
        ax.text(*at, letter, ha="center", va="center", fontsize=7, color=ink, bbox=frame if wrong else None)
        if not place.ahead:
            ax.plot(at[0] - 0.4, at[1] + 0.32, ".", color="#444444", markersize=3)
    ax.grid(False)
    ax.set_xticks(range(len(grid.delta)), [f"{x:g}" for x in grid.delta])
    ax.set_yticks(range(len(grid.zeta)), [f"{x:g}" for x in grid.zeta])
    return ax.imshow(values, cmap=scale, vmin=-WIDEST, vmax=WIDEST, origin="lower", aspect="auto")
