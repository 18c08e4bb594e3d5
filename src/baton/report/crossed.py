"""The figure of two bounds over one symbol, with the places where they cross."""

import io

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from baton.report import words
from baton.report.figures import METADATA, STYLE
from baton.report.overlaid import BOUNDED
from baton.theory import MEANING, Curves

SHORT = {"zeta": "ζ, heterogeneity"}  # others are MEANING's
COUNTS = 4  # crossings that are named; more would stand on each other


def figure(case: str, curves: Curves, note: str, form: str) -> bytes:
    """Both bounds, logarithmic both ways."""
    with style.context(STYLE):
        fig = Figure(figsize=(5.6, 4.0), layout="constrained")
        ax = fig.subplots()
        for name, totals in curves.totals.items():
            ax.plot(curves.values, totals, color=words.ALGORITHM_COLOURS[name], linewidth=1.8, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        for crossing in curves.crossings[:COUNTS]:
            ax.axvline(crossing.at, color="#555555", linewidth=0.8, linestyle=":")
            told = f" {curves.over} = {crossing.at:,.4g}"
            ax.text(crossing.at, 0.02, told, fontsize=8, color="#555555", transform=ax.get_xaxis_transform())
        ax.yaxis.set_major_locator(LogLocator(numticks=7))
        ax.yaxis.set_minor_formatter(NullFormatter())
        ax.set_title(f"Bounds over {curves.over}, {case.replace('_', ' ')}", loc="left")
        ax.set_ylabel(BOUNDED.get(case, "$E[F(x) - F_*]$"))
        ax.set_xlabel(f"{SHORT.get(curves.over) or f'{curves.over}, {MEANING[curves.over]}'}\n{note}")
        fig.legend(loc="outside upper center", ncols=2, frameon=False)
        data = io.BytesIO()
        fig.savefig(data, format=form, metadata=METADATA[form])
        return data.getvalue()
