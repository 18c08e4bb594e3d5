"""The figures of overlay.py: measured, bound and terms over rounds; drawn like all figures of a report."""

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from baton.errors import BadInput
from baton.report import overlay, words
from baton.report.bands import FLOOR, Array
from baton.report.figures import METADATA, STYLE
from baton.report.overlay import Cell, effective
from baton.store import Store
from baton.study import Study
from baton.theory import TERMS, Result

COLOURS = dict(zip(TERMS, (*words.OTHER_COLOURS[:4], "#7A4FB5"), strict=True))
WIDTH, HEIGHT = 3.4, 2.7  # inches of a panel
NOTE = (
    "The weighted mean of F(x) - F* so far, over seeds (shaded: smallest to largest), beside the theorem's bound and "
    "its terms, at the learning rate with the least bound. A bound begins where its conditions hold."
)
BOUNDED = {"nonconvex": "$E|\\nabla F(x)|^2$"}  # by case; else that of F(x)


def suffix(out: Path) -> str:
    """The format that a file's name asks for."""
    found = out.suffix.removeprefix(".").lower()
    if found not in METADATA:
        raise BadInput(f"out: {str(out)!r}; a name that ends in {', '.join('.' + s for s in METADATA)} is right")
    return found


def files(study: Study, stem: str, store: Store) -> dict[str, bytes]:
    """The figure of a study of quadratics in all formats, from the store."""
    shown = overlay.cells(study, overlay.exact(), overlay.stored(store))
    return {f"{stem}-bounds.{form}": study_figure(shown, form) for form in METADATA}


def study_figure(cells: Sequence[Cell], form: str) -> bytes:
    """A panel a cell: a column a group and a row an algorithm where they fit; else groups below each other."""
    cells, across = _laid(cells)
    down = -(-len(cells) // across)
    with style.context(STYLE):
        fig = Figure(figsize=(max(WIDTH * across, 5.0), HEIGHT * down + 0.6), layout="constrained")
        axes = fig.subplots(down, across, squeeze=False)
        for place, ax in enumerate(axes.flat):
            if place < len(cells):
                _cell(ax, cells[place])
            else:
                ax.set_visible(False)
            if place + across >= len(cells):
                ax.set_xlabel("round")
        if across == len({cell.group for cell in cells}):  # algorithms are compared down a column
            for column in axes.T:
                ends = [ax.get_ylim() for ax in column if ax.lines]
                for ax in column if ends else ():
                    ax.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
        fig.supylabel("$E[F(x) - F_*]$", fontsize=9)
        _legend(fig, [cell.algorithm for cell in cells if cell.seeds], [cell.bound for cell in cells if cell.bound])
        return _save(fig, form)


def _laid(cells: Sequence[Cell]) -> tuple[list[Cell], int]:
    """In the order of a figure's places, and how many stand side by side."""
    groups = list(dict.fromkeys(cell.group for cell in cells))
    algorithms = list(dict.fromkeys(cell.algorithm for cell in cells))
    if len(groups) <= 4 and len(cells) == len(groups) * len(algorithms):
        by = {(cell.algorithm, cell.group): cell for cell in cells}
        return [by[algorithm, group] for algorithm in algorithms for group in groups], len(groups)
    return list(cells), min(4, len(cells)) if len(algorithms) % 2 == 0 else 3


def bound_figure(algorithm: str, case: str, rounds: Array, found: Result, note: str, form: str) -> bytes:
    """A bound and its terms by number of rounds."""
    with style.context(STYLE):
        fig = Figure(figsize=(5.6, 4.0), layout="constrained")
        ax = fig.subplots()
        _bound(ax, rounds, found)
        _axes(ax, rounds, found, np.empty((0, 0)))
        ax.set_title(f"{algorithm}, {_said(case)}", loc="left")
        ax.set_ylabel(BOUNDED.get(case, "$E[F(x) - F_*]$"))
        ax.set_xlabel(f"rounds\n{note}")
        _legend(fig, [], [found])
        return _save(fig, form)


def _cell(ax: Axes, cell: Cell) -> None:
    s = cell.setting
    ax.set_title("\n".join(textwrap.wrap(f"{cell.group}: {s.algorithm}", 44)), loc="left", parse_math=False, pad=14)
    if cell.bound is None:
        told = "\n".join(textwrap.wrap(f"no bound: {cell.why}", 36))
        ax.text(0.5, 0.5, told, ha="center", va="center", color="#555555", transform=ax.transAxes, parse_math=False)
        ax.set_xticks([])
        ax.set_yticks([])
        return
    told = f"lr {words.value(s.lr)}, $\\tilde\\eta$ {effective(s):.3g}; {_said(cell.case)}"
    ax.text(0, 1.01, told, fontsize=7.5, color="#555555", transform=ax.transAxes, va="bottom")
    _bound(ax, cell.rounds, cell.bound)
    if cell.seeds:
        colour = words.ALGORITHM_COLOURS[s.algorithm]
        low, high = (np.maximum(FLOOR, f(cell.measured, axis=0)) for f in (np.min, np.max))
        ax.fill_between(cell.rounds, low, high, color=colour, alpha=0.25, linewidth=0)
        ax.plot(cell.rounds, np.maximum(FLOOR, cell.measured.mean(0)), color=colour, linewidth=1.8)
    _axes(ax, cell.rounds, cell.bound, cell.measured)


def _bound(ax: Axes, rounds: Array, found: Result) -> None:
    for name in TERMS:
        values = found.terms[name]
        if _there(found, name):
            ax.plot(rounds, np.where(values > 0, values, np.nan), color=COLOURS[name], linewidth=1, linestyle="--")
    ax.plot(rounds, found.total, color="#222222", linewidth=1.8)


def _axes(ax: Axes, rounds: Array, found: Result, measured: Array) -> None:
    """Both logarithmic; terms far below what is measured and what is proved are not followed."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(1, float(rounds[-1]) * 1.05)
    shown = np.concatenate([measured[measured > 0].ravel(), found.total[np.isfinite(found.total)] / 300])
    top = np.concatenate([measured.ravel(), found.total[np.isfinite(found.total)]])
    if len(shown):
        ax.set_ylim(max(FLOOR, 0.5 * float(shown.min())), 2 * float(top.max()))
    ax.yaxis.set_major_locator(LogLocator(numticks=7))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_minor_locator(NullLocator())


def _there(found: Result, name: str) -> bool:
    return bool(np.nanmax(found.terms[name], initial=0.0) > 0)


def _said(case: str) -> str:
    return case.replace("_", " ")


def _legend(fig: Figure, algorithms: Sequence[str], bounds: Sequence[Result]) -> None:
    shown = [
        Line2D([], [], color=words.ALGORITHM_COLOURS[name], linewidth=1.8, label=f"measured, {name}")
        for name in dict.fromkeys(algorithms)
    ]
    shown.append(Line2D([], [], color="#222222", linewidth=1.8, label="bound"))
    terms = [(name, name.replace("_", ", ")) for name in TERMS if any(_there(found, name) for found in bounds)]
    shown += [Line2D([], [], color=COLOURS[name], linestyle="--", linewidth=1, label=label) for name, label in terms]
    fits = max(2, int(fig.get_figwidth() / 1.7))
    fig.legend(handles=shown, loc="outside upper center", ncols=min(len(shown), fits), frameon=False)


def _save(fig: Figure, form: str) -> bytes:
    data = io.BytesIO()
    fig.savefig(data, format=form, metadata=METADATA[form])
    return data.getvalue()
