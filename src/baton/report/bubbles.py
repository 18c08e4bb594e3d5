"""Pictures of partitions: the paper's bubble chart (client, label, area by count) and a heat map of the same counts."""

import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from baton.report.figures import METADATA, STYLE, WIDTH

FORMATS = tuple(METADATA)
NUMBERED = 20  # clients up to which each cell shows its number
SHOWN = 500  # clients drawn at most, the first ones
DOT = 3.5  # points: the largest bubble is never smaller
COLOUR, TEXT = "#9ecae1", "#1a1a1a"


class Panel(NamedTuple):
    """One partition."""

    title: str
    counts: NDArray[np.int64]  # [M, classes]


def pair(panel: Panel, suffix: str) -> bytes:
    """Bubble chart and heat map side by side."""
    clients, classes = panel.counts[:SHOWN].shape
    with style.context(STYLE):
        fig = Figure(figsize=(WIDTH, float(np.clip(0.42 * classes, 2.6, 9.0))), layout="constrained")
        left, right = fig.subplots(1, 2, sharey=True)
        for ax in (left, right):
            _frame(ax, clients, classes)
        left.set_ylabel("label")
        image = right.imshow(
            panel.counts[:SHOWN].T, cmap="Blues", aspect="auto", origin="lower", interpolation="nearest"
        )
        fig.colorbar(image, ax=right, label="samples", pad=0.02).outline.set_visible(False)
        fig.suptitle(_title(panel), fontsize=9.5, parse_math=False)
        _bubbles(fig, [(left, panel.counts)])
        if clients <= NUMBERED:
            _numbers(right, panel.counts, dark_from=0.6 * panel.counts.max())
        return _save(fig, suffix)


def grid(panels: Sequence[Panel], columns: int, suffix: str) -> bytes:
    """Bubble charts of several partitions; areas compare within a panel, the numbers across panels."""
    across = max(1, min(columns, len(panels)))
    down = -(-len(panels) // across)
    with style.context(STYLE):
        fig = Figure(figsize=(WIDTH, 0.86 * WIDTH / across * down), layout="constrained")
        axes = fig.subplots(down, across, squeeze=False)
        for place, ax in enumerate(axes.flat):
            if place >= len(panels):
                ax.set_visible(False)
                continue
            _frame(ax, *panels[place].counts[:SHOWN].shape)
            ax.set_title(_title(panels[place]), loc="left", parse_math=False)
            ax.set_xlabel("client" if place + across >= len(panels) else "")
            ax.set_ylabel("" if place % across else "label")
        _bubbles(fig, [(ax, panel.counts) for ax, panel in zip(axes.flat, panels, strict=False)])
        return _save(fig, suffix)


def _title(panel: Panel) -> str:
    clients = len(panel.counts)
    return f"{panel.title} (clients 0 to {SHOWN - 1} of {clients:,})" if clients > SHOWN else panel.title


def _frame(ax: Axes, clients: int, classes: int) -> None:
    ax.grid(False, which="both")
    ax.set_xlim(-0.5, clients - 0.5)
    ax.set_ylim(-0.5, classes - 0.5)
    ax.set_xlabel("client")
    for axis, count in ((ax.xaxis, clients), (ax.yaxis, classes)):
        if count <= NUMBERED:
            axis.set_ticks(range(count))
            axis.set_ticks(np.arange(1, count) - 0.5, minor=True)
            axis.grid(True, which="minor", color="#eeeeee", linewidth=0.5)
        else:
            axis.set_major_locator(MaxNLocator(10, integer=True))
    ax.tick_params(which="both", length=0)


def _bubbles(fig: Figure, panels: Sequence[tuple[Axes, NDArray[np.int64]]]) -> None:
    """Areas by count; the largest bubble of a panel fills its cell."""
    fig.draw_without_rendering()  # lays the axes out, so that a cell's size is known
    fig.set_layout_engine("none")
    for ax, every in panels:
        counts = every[:SHOWN]
        box = ax.get_window_extent()
        cell = min(box.width / counts.shape[0], box.height / counts.shape[1]) * 72 / fig.dpi
        client, label = np.nonzero(counts)
        area = max(0.94 * cell, DOT) ** 2 * counts[client, label] / max(1, counts.max())
        ax.scatter(client, label, s=area, color=COLOUR, linewidths=0)
        if len(counts) <= NUMBERED:
            _numbers(ax, counts)


def _numbers(ax: Axes, counts: NDArray[np.int64], dark_from: float = np.inf) -> None:
    """The count in each cell that has one; white from `dark_from` on."""
    size = 6.5 if len(counts) <= 12 else 4.5
    for client, label in zip(*np.nonzero(counts), strict=True):
        count = int(counts[client, label])
        colour = "white" if count >= dark_from else TEXT
        ax.text(client, label, str(count), ha="center", va="center", fontsize=size, color=colour)


def _save(fig: Figure, suffix: str) -> bytes:
    data = io.BytesIO()
    fig.savefig(data, format=suffix, metadata=METADATA[suffix])
    return data.getvalue()
