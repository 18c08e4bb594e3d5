"""The figure of what orders cost: exact errors on the quadratics, and bounds, over epochs."""

import io

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from baton.report.figures import METADATA, STYLE
from baton.theory import ORDERS, Chain, least_error, order_bound, order_error

POINTS = 9


def figure(p: Chain, form: str) -> bytes:
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
