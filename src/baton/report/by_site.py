"""Every site's metric: a table by site, and a map of sites against rounds; of classes a table."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure
from numpy.typing import NDArray

from baton.report import words
from baton.report.figures import METADATA, STYLE, WIDTH, save
from baton.report.grid import Panel
from baton.report.sheets import heading
from baton.store import Store
from baton.study import Study
from baton.study.measured import at_most_half
from baton.verdict import interval

CLASSES = "Share of the test rows of each class that are answered right, in %, at the last evaluation; mean over seeds."
NAMED = 40  # sites whose names stand beside a map
Array = NDArray[np.float64]


class Shown(NamedTuple):
    """A metric at the sites of one line in one panel."""

    panel: Panel
    line: Any
    metric: str
    how: str
    names: list[str]  # [k]
    rows: list[int]  # [k] test rows
    rounds: list[int]
    values: Array  # [seeds, rounds, k]

    @property
    def mean(self) -> Array:
        """Over seeds: [rounds, k]."""
        return _mean(self.values)

    def ends(self, last: int) -> Array:
        """Of each seed, the mean over its last evaluations: [seeds, k]."""
        return _mean(self.values[:, -self.averaged(last) :].swapaxes(0, 1))

    def averaged(self, last: int) -> int:
        """How many evaluations that is: at most half of those after round 0."""
        return at_most_half(sum(r > 0 for r in self.rounds), last)


def load(study: Study, panels: Sequence[Panel], store: Store) -> dict[str, list[Shown]]:
    """What the store holds of a study's sites by metric, the report's own first; nothing of runs that measured none."""
    found: dict[str, list[Shown]] = {}
    for panel in panels:
        for line, curve in panel.curves.items():
            ids = [run.setting.run_id for run in curve.drawn if curve.done and run.diverged is None]
            every = [own for own in map(store.sites, ids) if own is not None and own.rounds]
            alike = [own for own in every if own.names == every[0].names and own.rounds == every[0].rounds]
            if alike:
                first, how = alike[0], store.about(ids[0]).sites
                for metric in first.values:
                    stacked = np.stack([own.values[metric].astype(float) for own in alike if metric in own.values])
                    own = Shown(panel, line, metric, how, first.names, first.rows, first.rounds, stacked)
                    found.setdefault(metric, []).append(own)
    main = _metric(study, list(found)) if found else ""
    return {metric: found[metric] for metric in sorted(found, key=lambda metric: metric != main)}


def _metric(study: Study, labels: list[str]) -> str:
    """The one that the report is about, or the first that sites have."""
    parts = study.report.metric.split("_", 1)[-1]
    return next((x for x in labels if parts in (x, *(f"{x}_{end}" for end in words.OVER))), labels[0])


def _mean(stacked: Array) -> Array:
    """Over the first axis, of what is known."""
    known = ~np.isnan(stacked)
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(known, stacked, 0.0).sum(0) / known.sum(0)
    return mean


def caption(study: Study, shown: Sequence[Shown]) -> str:
    """What the numbers are."""
    last = words.last(shown[0].averaged(study.report.last))
    name = words.MEASURES.get(shown[0].metric, shown[0].metric)
    seeds = max(len(each.values) for each in shown)
    over = f"mean ± 95 % interval over {words.counted(seeds, 'seed')}" if seeds > 1 else "one seed"
    first = f"{name[0].upper()}{name[1:]} of {shown[0].how}: {over}, of each the mean over {last}."
    return f"{first} n: test rows; the interval is that of seeds, and other rows would add to it."


def table(study: Study, shown: Sequence[Shown]) -> tuple[list[str], list[list[str]]]:
    """(heads, rows): a row a site, a column a line; then the mean, the worst and the spread over sites."""
    lines, field, rows = words.lines(study), study.report.figures, []
    for panel in dict.fromkeys(id(each.panel) for each in shown):
        own = {each.line: each for each in shown if id(each.panel) == panel}
        first = next(iter(own.values()))
        head = [*([words.value(first.panel.figure)] if field else []), first.panel.group]
        each_end = {line: each.ends(study.report.last) for line, each in own.items()}
        ends = {line: _mean(end) for line, end in each_end.items()}
        cells = {line: [_spread(end[:, i]) for i in range(end.shape[1])] for line, end in each_end.items()}
        for i, name in enumerate(first.names):
            told = [cells[x][i] if x in cells and own[x].names == first.names else "" for x in lines]
            rows.append([*head, name, str(first.rows[i]), *told])
        for name, function in (
            ("mean", np.nanmean),
            ("lowest", np.nanmin),
            ("highest", np.nanmax),
            ("spread", np.nanstd),
        ):
            told = [_text(float(function(ends[x]))) if x in ends and not np.isnan(ends[x]).all() else "" for x in lines]
            rows.append([*head, name, "", *told])
    return [*([field] if field else []), "group", "site", "n", *lines.values()], rows


def _spread(seeds: Array) -> str:
    """Mean ± half of the interval; "" where no seed has a value."""
    known = seeds[~np.isnan(seeds)]
    if len(known) < 2:
        return _text(float(known[0])) if len(known) else ""
    found = interval(known.tolist())
    return f"{_text(found.mean)} ± {found.half:.{3 if abs(found.mean) < 10 else 2}f}"


def _text(x: float) -> str:
    return "" if np.isnan(x) else f"{x:.3f}" if abs(x) < 10 else f"{x:.2f}"


def render(study: Study, shown: Sequence[Shown]) -> dict[str, bytes]:
    """Maps of sites against rounds, a line of the study each; the file's bytes by suffix."""
    names = words.lines(study)
    across = min(len(shown), max(1, len({each.line for each in shown})), 5)
    down = -(-len(shown) // across)
    high = min(4.7, 1.3 + 0.16 * min(NAMED, max(len(each.names) for each in shown)))
    known = np.concatenate([each.mean.ravel() for each in shown])
    known = known[~np.isnan(known)]
    low, top = (float(np.quantile(known, q)) for q in (0.02, 1.0)) if len(known) else (0.0, 1.0)
    with style.context(STYLE):
        fig = Figure(figsize=(WIDTH if across > 1 else 6.0, high * down + 0.3), layout="constrained")
        axes = fig.subplots(down, across, squeeze=False)
        for ax in axes.flat[len(shown) :]:
            ax.set_visible(False)
        for ax, each in zip(axes.flat, shown, strict=False):
            x = np.arange(len(each.rounds) + 1) - 0.5
            y = np.arange(len(each.names) + 1) - 0.5
            image = ax.pcolormesh(x, y, each.mean.T, vmin=low, vmax=top, cmap="viridis", rasterized=True)
            title = "\n".join(filter(None, (heading(each.panel, study), names[each.line])))
            ax.set_title(title, loc="left", parse_math=False)
            places = np.unique(np.linspace(0, len(each.rounds) - 1, min(5, len(each.rounds))).astype(int))
            ax.set_xticks(places, [f"{each.rounds[i]:,}" for i in places])
            ax.grid(visible=False)
            ax.invert_yaxis()
            if len(each.names) <= NAMED:
                ax.set_yticks(range(len(each.names)), [name[:20] for name in each.names], fontsize=7, parse_math=False)
            else:
                ax.set_ylabel("site")
        for ax in axes[-1]:
            ax.set_xlabel("round")
        fig.colorbar(image, ax=axes, label=words.MEASURES.get(shown[0].metric, shown[0].metric), shrink=0.9)
        fig.draw_without_rendering()
        fig.set_layout_engine("none")
        return {suffix: save(fig, suffix) for suffix in METADATA}


def classes(study: Study, panels: Sequence[Panel]) -> tuple[list[str], list[list[str]]] | None:
    """(heads, rows) of the accuracy of each class, a column a line; None where no run measured it."""
    lines, rows = words.lines(study), []
    for panel in panels:
        runs = {line: curve.drawn for line, curve in panel.curves.items() if curve.done}
        names = dict.fromkeys(n for own in runs.values() for run in own for n in run.metrics if n.startswith("class_"))
        for name in names:
            ends = {x: [float(run.metrics[name][-1]) for run in own if name in run.metrics] for x, own in runs.items()}
            told = [_text(float(np.mean(ends[x]))) if ends.get(x) else "" for x in lines]
            rows.append([panel.group, name.split("_")[1], *told])
    return (["group", "class", *lines.values()], rows) if rows else None
