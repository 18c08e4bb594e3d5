"""Who is ahead and where, in plain words."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from baton.report import verdicts, words
from baton.report.apart import ranked, unit
from baton.report.grid import Panel, ahead_together
from baton.search.rules import on_test_set
from baton.study import Report, Study
from baton.verdict import words as verdict


def findings(study: Study, panels: Sequence[Panel]) -> list[str]:
    """Who is ahead and where, in plain words: one sentence a value of the figures field."""
    field = study.report.figures
    found = []
    for figure in dict.fromkeys(panel.figure for panel in panels):
        told = _finding(study, [panel for panel in panels if panel.figure == figure])
        found.append(f"{words.called(study, field, figure)}: {told}" if field else _sentence(told))
    if found and on_test_set(study) and len(study.values(study.report.lines)) > 1:
        found.append(f"Each line's {' and '.join(study.swept)} was chosen on the test set.")
    return found


def _sentence(told: str) -> str:
    """With a capital, unless a name would change by it."""
    return told[0].upper() + told[1:] if told.split()[0].isalpha() else told


def _finding(study: Study, panels: Sequence[Panel]) -> str:
    report = study.report
    names = words.lines(study)
    if len(names) < 2:
        return f"only {next(iter(names.values()))} was run, so that there is nothing to compare it with."
    ready = [p for p in panels if len(p.curves) > 1 and all(curve.best for curve in p.curves.values())]
    if not ready:
        return "nothing to compare yet."
    if report.spread == "interval" and len(ready) == 1 and len(panels) == 1:
        return f"{_alone(ready[0], names, report)}."
    wins = Counter(won for won in (frozenset(ahead_together(panel, report)) for panel in ready) if won)
    ranked = sorted(wins, key=lambda lines: -wins[lines])
    groups = words.counted(len(ready), "group")
    called = {lines: " and ".join(names[line] for line in names if line in lines) for lines in ranked}
    verb = "are" if ranked and len(ranked[0]) > 1 else "is"
    parts = [f"{called[won]} {'in' if i else f'{verb} ahead in'} {wins[won]}" for i, won in enumerate(ranked)]
    if parts:
        parts[0] += f" of {groups}"
    even = len(ready) - wins.total()
    if even:
        by = f" by more than {report.margin:g}" if report.margin and not report.log else ""
        parts.append(f"none{by} in {even}" if parts else f"no line is ahead{by} in any of {groups}")
    waiting = len(panels) - len(ready)
    said = ", ".join(parts) + (f"; {waiting} cannot be compared yet" if waiting else "") + "."
    return " ".join(filter(None, (said, _judged(study, panels))))


def _judged(study: Study, panels: Sequence[Panel]) -> str:
    """What stands behind the word ahead, where it is not the paper's."""
    if study.report.spread == "paper":
        return ""
    if len(study.values("seed")) < 2:
        return "One seed has no interval, so that nobody is."
    why = {d.why: None for panel in panels for d in panel.apart.values() if d.why}
    known = any(not d.why for panel in panels for d in panel.apart.values())
    said = ["Ahead: p below 0.05 by seeds and test rows."] if known else []
    said += [f"No interval, and so no winner: {x}." for x in why]
    return " ".join(filter(None, (*said, verdicts.summary(panels))))


def _alone(panel: Panel, names: dict[Any, str], report: Report) -> str:
    """A single panel's verdict, with its numbers."""
    lines = ranked(panel.curves, report)
    gone = [names[line] for line in panel.curves if line not in lines]
    lost = f"{verdict.listed(gone)} diverged" if gone else ""
    if len(lines) < 2:
        return f"{names[lines[0]]} is ahead: {lost}" if lines else "every line diverged"
    said = verdict.best(lines, names, panel.apart, unit(report))
    short = ahead_together(panel, report) == () and panel.apart[lines[0], lines[1]].clear
    small = f", which is less than the margin of {report.margin:g}" if short else ""
    return "; ".join(filter(None, (said + small, lost)))
