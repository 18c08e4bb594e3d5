"""What a comparison came to."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from baton.report import findings, words
from baton.report.apart import ranked, unit
from baton.report.built import Built
from baton.report.curves import Curve
from baton.report.grid import Panel, ahead
from baton.report.tables import shown
from baton.search.rules import Choice
from baton.study import Study
from baton.verdict import Apart, Difference

WIDTH = 80  # of it in words: a terminal


class Line(NamedTuple):
    """One side, at its best rate."""

    name: str
    value: Any  # what it is called by: an algorithm's spec
    lr: float | None  # None: none of its rates ended in numbers
    mean: float  # over seeds; nan if it diverged
    low: float  # of the 95 % interval
    high: float
    scores: Mapping[int, float]  # seed -> the metric; its power of ten where distances are compared
    text: str  # as it is shown
    edge: str  # "smallest" or "largest", where the rate is at the end of those that were tried
    runs: tuple[str, ...]  # their ids


class Pair(NamedTuple):
    """The better line, another, and the first less the second: above 0 whichever end of the metric is better."""

    first: str
    second: str
    difference: Difference


class Comparison(NamedTuple):
    """Lines, how far they are apart, and what that shows; printed, it is in words."""

    metric: str
    unit: str  # of differences: points, decades or none
    lines: list[Line]
    pairs: list[Pair]  # the best line and each other, then the next best ...
    winner: str | None  # the line that is ahead of all others, by p values corrected for all pairs
    verdict: str  # in one sentence
    notes: list[str]  # what to be careful about
    study: Study
    page: Path | None = None  # where the report was written

    def __str__(self) -> str:
        return "\n".join(_told(self))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def compared(built: Built) -> Comparison:
    """A study of one panel, as typed numbers."""
    study, (panel,) = built.study, built.panels
    report, names = study.report, words.lines(study)
    order = [*ranked(panel.curves, report), *(x for x in panel.curves if x not in ranked(panel.curves, report))]
    lines = [_line(study, panel, line, names[line]) for line in order]
    pairs = [Pair(names[a], names[b], d) for (a, b), d in panel.apart.items()]
    won = ahead(panel, report)
    said = findings.findings(study, [panel])[0]
    notes = [*_searched(study, built.found.choices, names), *_notes(lines, panel.apart)]
    return Comparison(report.metric, unit(report), lines, pairs, names.get(won), said, notes, study)


def _line(study: Study, panel: Panel, line: Any, name: str) -> Line:
    curve = panel.curves[line]
    best, runs = curve.best, curve.drawn
    sound = best is not None and not best.lost
    lr = runs[0].setting.lr if runs and sound else None
    ends = (best.mean, best.low, best.high) if best else (float("nan"),) * 3
    ids = tuple(run.setting.run_id for run in runs)
    text, edge = shown(best, study.report.metric), _edge(study, curve, panel, line) if sound else ""
    return Line(name, line, lr, *ends, best.scores if best else {}, text, edge, ids)


def _edge(study: Study, curve: Curve, panel: Panel, line: Any) -> str:
    """Whether a better rate may lie beyond those that were tried."""
    rates = sorted({s.lr for s in panel.settings[line]})
    if study.tune is None or len(rates) < 2:
        return ""
    return {rates[0]: "smallest", rates[-1]: "largest"}.get(curve.drawn[0].setting.lr, "")


def _searched(study: Study, found: Sequence[Choice], names: Mapping[Any, str]) -> list[str]:
    """What the search could not tell, line by line."""
    said = []
    for choice in found:
        name = names[study.at(next(iter(choice.cell.final.values())), study.report.lines)]
        said += [f"{name}: {choice.tie}"] if choice.tie else []
        said += [f"{name}: still getting better at its end; more rounds may change the result"] if choice.rises else []
    return said


def _notes(lines: list[Line], apart: Apart) -> list[str]:
    said = [
        f"{line.name}: its rate, {line.lr:g}, is the {line.edge} of those tried; a better one may lie beyond (--lrs)"
        for line in lines
        if line.edge
    ]
    tests = {d.rows for d in apart.values() if d.rows}
    if any(not test.paired for test in tests):
        said.append("the test rows' chance is bounded from the accuracies alone, as if the lines erred independently")
    return said


def _told(found: Comparison) -> list[str]:
    """The table, the verdict and what to be careful about, in lines that fit a terminal."""
    lines = [line for text in (_where(found.study), found.study.about) for line in _wrapped(text)]
    sizes = {pair.difference.rows.n for pair in found.pairs if pair.difference.rows}
    seeds = words.counted(len(found.study.values("seed")), "seed")
    about = [f"{words.metric(found.metric)} at the end", f"mean over {seeds}"]
    about += ["± 95 % interval"] if any("±" in line.text for line in found.lines) else []
    about += [f"{n:,} test rows" for n in sizes]
    about += [f"rates chosen with seed {found.study.search_seed}"] if found.study.tune else []
    lines += [*wrap(", ".join(about), WIDTH), ""]
    name, text = (max(len(getattr(line, part)) for line in found.lines) for part in ("name", "text"))
    for line in found.lines:
        rate = f"  lr {line.lr:.4g}" if line.lr else ""
        lines.append(f"  {line.name:{name}}  {line.text:{text}}{rate}".rstrip())
    lines += ["", *wrap(found.verdict, WIDTH)]
    for note in found.notes:
        lines += wrap(f"note: {note}", WIDTH)
    return [*lines, f"open {found.page}"] if found.page else lines


def _wrapped(text: str) -> list[str]:
    """Lines that fit; `K = 5` stays in one."""
    return [line.replace("\u00a0", " ") for line in wrap(text.replace(" = ", "\u00a0=\u00a0"), WIDTH)]


def _where(study: Study) -> str:
    """What all lines were trained on; nothing where they differ in it."""
    said = {
        f"{s.dataset}, {s.model}, {s.partition}: M = {s.clients}, S = {s.participants}, {s.length}, R = {s.rounds}"
        for s in study.settings
    }
    return said.pop() if len(said) == 1 else ""
