"""The figure of what orders cost: exact errors on the quadratics, and bounds, over epochs."""

import io

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from baton.report.figures import METADATA, STYLE
from baton.theory import ORDERS, Chain, Groups, groups_costs, least_error, order_bound, order_error

POINTS = 9


def figure(p: Chain, form: str, cyclic: Groups | None = None) -> bytes:
    """Logarithmic both ways; every point is at its own best learning rate."""
    most = max(p.epochs, 20)
    epochs = np.unique(np.geomspace(10, most, POINTS).round().astype(int))
    even = np.unique(epochs + epochs % 2)  # back and forth in pairs
    with style.context(STYLE):
        fig = Figure(figsize=(6.2, 5.0), layout="constrained")
        ax = fig.subplots()
        for i, order in enumerate(ORDERS):
            at = even if order == "flipflop" else epochs
            exact = [least_error(order_error, order, p._replace(epochs=int(e))).error for e in at]
            ax.plot(at, exact, color=f"C{i}", linewidth=1.8, label=order)
            if order in ("incremental", "once"):  # the other orders' bound is that of one shuffle
                proved = [least_error(order_bound, order, p._replace(epochs=int(e))).error for e in at]
                ax.plot(at, proved, color=f"C{i}", linewidth=1.2, linestyle="--")
        if cyclic:
            _turns(ax, cyclic, epochs)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"Orders of M = {p.M} clients, K = {p.K}, μ = {p.mu:g}, L = {p.L:g}, ζ* = {p.zeta:g}", loc="left")
        ax.set_ylabel("$E[F(x) - F_*]$, at the best rate")
        ax.set_xlabel("epochs")
        handles = [*ax.get_legend_handles_labels()[0]]
        handles += [Line2D([], [], color="#555555", label="exact, on quadratics")]
        handles += [Line2D([], [], color="#555555", linestyle="--", label="bound")]
        fig.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
        data = io.BytesIO()
        fig.savefig(data, format=form, metadata=METADATA[form])
        return data.getvalue()


def _turns(ax: Axes, p: Groups, epochs: NDArray[np.int64]) -> None:
    """Of groups that take turns; a cycle is G S of M clients, the part S/N of an epoch."""
    cycles = np.unique((epochs * p.M / (p.G * p.S)).round().astype(int))
    found = [groups_costs(p._replace(cycles=int(c))) for c in cycles]
    at = cycles * (p.G * p.S / p.M)
    for i, word in enumerate(("chain", "parallel")):
        line, point = (("-", ""), ("none", "o"))[i]  # the two are often the same
        color, exact = f"C{len(ORDERS) + i}", [each[i].quadratics.error for each in found]
        if found[0][i].falls_as != "exp(-R)":  # far below all others in no time
            (drawn,) = ax.plot(at, exact, linestyle=line, marker=point, color=color, label=f"cyclic, {word}")
            drawn.set(linewidth=1.8, markersize=4)
        ax.plot(at, [each[i].bound.error for each in found], color=color, linewidth=1.2, linestyle="--")
