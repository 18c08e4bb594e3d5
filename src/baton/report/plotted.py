"""Runs that are no study as a figure: a metric over rounds, a line for all that differ in their seed only."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure

from baton.report import words
from baton.report.figures import STYLE
from baton.setting import Setting
from baton.store import Metrics


class Picture:
    """A matplotlib figure that a notebook shows, and that can be saved."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def save(self, path: str | Path) -> None:
        """To a file; its name says how: .png, .svg or .pdf."""
        self.figure.savefig(path)

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        self.figure.savefig(data, format="png")
        return data.getvalue()


def figure(runs: Sequence[tuple[Setting, Metrics]], metric: str) -> Figure:
    """The mean over seeds, shaded from the smallest to the largest."""
    vary = [f for f in Setting.model_fields if f != "seed" and len({getattr(s, f) for s, _ in runs}) > 1]
    lines: dict[str, list[Metrics]] = {}
    for s, found in runs:
        lines.setdefault(_line(s, vary), []).append(found)
    colours = words.colours("algorithm" if vary == ["algorithm"] else "", list(lines))
    with style.context(STYLE):
        fig = Figure(figsize=(5.6, 3.6), layout="constrained")
        ax = fig.subplots()
        for label, own in lines.items():
            rounds, values = _together(own, metric)
            if values.shape[0] > 1:
                ax.fill_between(rounds, values.min(0), values.max(0), color=colours[label], alpha=0.2, linewidth=0)
            ax.plot(rounds, values.mean(0), color=colours[label], linewidth=1.5, label=label)
        if metric in ("distance", "objective_gap"):
            ax.set_yscale("log")
        ax.set_xlabel("round")
        ax.set_ylabel(words.metric(metric))
        if vary:
            fig.legend(loc="outside upper center", ncols=2, frameon=False)
    return fig


def _together(runs: Sequence[Metrics], metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The rounds at which all were measured, and the values there: [runs, rounds]."""
    series = [dict(zip(run["round"].tolist(), run[metric].tolist(), strict=True)) for run in runs]
    rounds = sorted(r for r in series[0] if all(r in one and not np.isnan(one[r]) for one in series))
    return np.array(rounds), np.array([[one[r] for r in rounds] for one in series])


def _line(s: Setting, vary: Sequence[str]) -> str:
    """What tells a line from the others; a leg has K or E."""
    told = {f: x for f in vary if (x := getattr(s, f)) or f not in ("local_steps", "epochs")}
    return ", ".join(
        words.value(x) if isinstance(x, str) else f"{words.LETTERS.get(f, f)} = {words.value(x)}"
        for f, x in told.items()
    )
