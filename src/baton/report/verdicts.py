"""Every comparison of a study: how far apart two lines are, how sure that is, and what would settle it."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from baton.report import words
from baton.report.apart import ranked, unit
from baton.report.grid import Panel
from baton.report.search import place
from baton.study import Study
from baton.verdict import ONE_SEED, Difference, Rows, rows_needed, sampling_error, seeds_needed
from baton.verdict import words as told
from baton.verdict.needed import MOST
from baton.verdict.student import quantile

HEAD = ("group", "better", "than", "difference", "95 % interval", "p", "corrected p", "seeds", "verdict")


class Row(NamedTuple):
    """One comparison: the best line of a panel and another."""

    group: str
    first: str
    second: str
    found: Difference
    unit: str
    margin: float

    @property
    def ahead(self) -> bool:
        """By the corrected p, and by more than the margin."""
        return self.found.clear and self.found.mean > self.margin

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.ahead:
            return "ahead"
        if self.found.clear:
            return f"ahead by less than {self.margin:g}"
        if self.found.why:
            return "one seed: no interval" if self.found.why == ONE_SEED else f"no interval: {self.found.why}"
        seeds, wanted = seeds_needed(self.found), rows_needed(self.found)
        if wanted:
            return f"open: {wanted:,} test rows needed"
        return f"open: {seeds:,} seeds needed" if seeds else f"open: more than {MOST:,} seeds needed"

    @property
    def texts(self) -> list[str]:
        """As one reads it, by HEAD."""
        d, known = self.found, not self.found.why
        ends = f"{told.number(d.low, self.unit)} to {told.number(d.high, self.unit)}" if known else ""
        chances = [told.chance(d.p), told.chance(d.sure)] if known else ["", ""]
        seeds = f"{d.seeds}{', paired' if d.paired and d.seeds > 1 else ''}"
        mean = told.amount(d.mean, self.unit)
        return [self.group, self.first, self.second, mean, ends, *chances, seeds, self.verdict]


def rows(study: Study, panels: Sequence[Panel]) -> list[Row]:
    """The best line of each panel against every other; none in the paper's way."""
    return [row for panel in panels for row in _rows(study, panel)]


def _rows(study: Study, panel: Panel) -> Iterator[Row]:
    names, lines = words.lines(study), ranked(panel.curves, study.report)
    margin = 0.0 if study.report.log else study.report.margin
    for other in lines[1:] if panel.apart else ():
        found = panel.apart[lines[0], other]
        yield Row(place(study, panel), names[lines[0]], names[other], found, unit(study.report), margin)


def summary(panels: Sequence[Panel]) -> str:
    """Over what the word ahead is corrected, and what chance alone would do."""
    known = [sum(not d.why for d in panel.apart.values()) for panel in panels]
    said = told.compared(sum(n > 0 for n in known), sum(known))
    return f"{said[0].upper()}{said[1:]}." if said else ""


def caption(study: Study, panels: Sequence[Panel]) -> str:
    """What the intervals hold."""
    found = rows(study, panels)
    parts = ["The best line of each group against every other; seeds that both have are compared one by one."]
    parts.append("Intervals are 95 % each, of the pair alone.")
    tests = {row.found.rows for row in found if row.found.rows}
    if tests:
        how = {test.paired for test in tests}
        which = "answers to each row" if how == {True} else "accuracies alone, which is at most"
        parts.append(f"They hold the chance of the test rows too, from the {which}.")
        if study.report.metric == "test_accuracy":
            parts.append(sampled(study, panels, tests))
    why = {row.found.why: None for row in found if row.found.why}
    parts += [f"No interval, and so no winner: {x}." for x in why]
    return " ".join([*parts, summary(panels)]).strip()


def sampled(study: Study, panels: Sequence[Panel], tests: set[Rows]) -> str:
    """What one accuracy alone is worth on so few rows."""
    sizes = sorted({test.n for test in tests})
    best = [c.best.mean for p in panels for c in p.curves.values() if c.best and not c.best.lost]
    middle, n = sorted(best)[len(best) // 2], sizes[0]
    half = quantile(0.95, math.inf) * sampling_error(middle, n)
    of = f"{n:,} test rows" if len(sizes) == 1 else f"the smallest test set, {n:,} rows,"
    return f"On {of} one accuracy of {words.number(middle, study.report.metric)} % is known to ± {half:.2f} points."


def files(study: Study, panels: Sequence[Panel]) -> dict[str, bytes]:
    """All comparisons as CSV and Markdown, by file name; none where there are none."""
    found, stem = rows(study, panels), f"{words.stem(study.name)}-verdict"
    if not found:
        return {}
    marked = [[*row.texts[:-1], f"**{row.verdict}**" if row.ahead else row.verdict] for row in found]
    text = f"{words.as_md(HEAD, marked)}\n{caption(study, panels)}\n"
    return {f"{stem}.csv": _csv(found), f"{stem}.md": text.encode()}


def _csv(found: Sequence[Row]) -> bytes:
    """One line a comparison, every digit kept."""
    head = ["group", "first", "second", "difference", "low", "high", "p", "p_corrected", "pairs", "seeds", "paired"]
    head.append("seed_error")
    lines: list[list[object]] = [[*head, "test_rows", "test_error", "rows_paired", "ahead", "no_interval"]]
    for row in found:
        d, test = row.found, row.found.rows
        ends = [d.low, d.high, d.p, d.sure] if not d.why else ["", "", "", ""]
        error = d.seed_error if math.isfinite(d.seed_error) else ""
        tests = [test.n, test.error, int(test.paired)] if test else ["", "", ""]
        first = [row.group, row.first, row.second, d.mean, *ends, d.pairs, d.seeds, int(d.paired), error]
        lines.append([*first, *tests, int(row.ahead), d.why])
    return words.as_csv(lines)
