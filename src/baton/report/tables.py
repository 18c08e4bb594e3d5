"""Tables: a row a group, a column a line; as text for people and as numbers for programs."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from baton.report import words
from baton.report.curves import Curve, values
from baton.report.grid import Panel, ahead
from baton.study import Study

Cell = dict[str, Any]
Row = dict[str, Any]


def rows(study: Study, panels: Sequence[Panel]) -> list[Row]:
    """The table of a study: {figure, group, missing, cells}, and in cells one entry a line of the study."""
    lines = values(study.settings, study.report["lines"])
    return [
        {
            "figure": words.value(panel.figure),
            "group": panel.group,
            "missing": sum(curve.missing for curve in panel.curves.values()),
            "cells": [_cell(line, panel, study) for line in lines],
        }
        for panel in panels
    ]


def _cell(line: Any, panel: Panel, study: Study) -> Cell:
    """One line of one panel: numbers by the name of their column, and how they read."""
    report, curve = study.report, panel.curves.get(line)
    if curve is None:
        return {"text": "", "note": "", "ahead": False, "line": line, "numbers": None}
    best, metric = curve.best, report["metric"]
    if best is None:
        text = "not run"
    elif best.lost:
        text = "diverged"
    else:
        text = f"{words.number(best.mean, metric)} ± {words.number(best.std, metric)}"
    numbers = {
        "mean": best.mean if best else "",
        "std": best.std if best else "",
        "best": best.value if best else "",
        "seeds": best.seeds if best else 0,
        "complete": curve.complete,
        "diverged": curve.lost,
        "missing": curve.missing,
    }
    won = line == ahead(panel, report)
    return {"text": text, "note": _note(curve, report["over"]), "ahead": won, "line": line, "numbers": numbers}


def _note(curve: Curve, over: str) -> str:
    parts = []
    if over and curve.best and not curve.best.lost:
        parts.append(f"{over} {words.value(curve.best.value)}")
        if curve.best.seeds < curve.seeds:
            parts.append(f"{curve.best.seeds} of {curve.seeds} seeds")
    if curve.lost:
        parts.append(f"{curve.lost} of {curve.complete} runs diverged")
    return ", ".join(parts)


def to_csv(study: Study, table: Sequence[Row]) -> bytes:
    """One line a group and line of the study, every digit kept."""
    report = study.report
    named = {"figure": report["figures"], "group": "group", "line": report["lines"]}
    keys = [key for key, name in named.items() if name]
    numbers = ["mean", "std", *(["best"] if report["over"] else []), "seeds", "complete", "diverged", "missing"]
    heads = [report["over"] if key == "best" else key for key in numbers]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(named[key] for key in keys), *heads, "ahead"])
    for row in table:
        for cell in row["cells"]:
            if cell["numbers"] is not None:
                first = [{**row, "line": cell["line"]}[key] for key in keys]
                writer.writerow([*first, *(cell["numbers"][key] for key in numbers), int(cell["ahead"])])
    return text.getvalue().encode()


def to_md(study: Study, table: Sequence[Row]) -> bytes:
    """The table as one reads it."""
    report = study.report
    names = words.labels(report["lines"], values(study.settings, report["lines"]))
    figures, missing = bool(report["figures"]), any(row["missing"] for row in table)
    head = [*([report["figures"]] if figures else []), "group", *names.values(), *(["missing"] if missing else [])]
    lines = [head, ["---"] * len(head)]
    for row in table:
        first = [*([row["figure"]] if figures else []), row["group"]]
        lines.append([*first, *map(_md_cell, row["cells"]), *([str(row["missing"])] if missing else [])])
    body = "\n".join("| " + " | ".join(_md(cell) for cell in line) + " |" for line in lines)
    return f"{body}\n\n{caption(study)}\n".encode()


def _md_cell(cell: Cell) -> str:
    text = f"**{cell['text']}**" if cell["ahead"] else cell["text"]
    return f"{text} ({cell['note']})" if cell["note"] else text


def _md(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def caption(study: Study) -> str:
    """What the numbers of the table are."""
    report = study.report
    metric = words.METRICS.get(report["metric"], report["metric"])
    chosen = f", at the best {report['over']}" if report["over"] else ""
    bold = "better" if report["log"] or not report["margin"] else f"better by more than {report['margin']:g}"
    first = f"{metric[0].upper()}{metric[1:]}: mean ± standard deviation over seeds and the last {report['last']}"
    return f"{first} evaluations{chosen}. Bold: {bold}."


def findings(study: Study, panels: Sequence[Panel]) -> list[str]:
    """Who is ahead and where, in plain words: one sentence a value of the figures field."""
    field = study.report["figures"]
    found = []
    for figure in dict.fromkeys(panel.figure for panel in panels):
        told = _finding(study, [panel for panel in panels if panel.figure == figure])
        found.append(f"{field} = {words.value(figure)}: {told}" if field else _sentence(told))
    return found


def _sentence(told: str) -> str:
    """With a capital, unless a name would change by it."""
    return told[0].upper() + told[1:] if told.split()[0].isalpha() else told


def _finding(study: Study, panels: Sequence[Panel]) -> str:
    report = study.report
    names = words.labels(report["lines"], values(study.settings, report["lines"]))
    if len(names) < 2:
        return f"only {next(iter(names.values()))} was run, so that there is nothing to compare it with."
    ready = [p for p in panels if len(p.curves) > 1 and all(curve.best for curve in p.curves.values())]
    if not ready:
        return "nothing to compare yet."
    wins = Counter(won for won in (ahead(panel, report) for panel in ready) if won is not None)
    ranked = sorted(wins, key=lambda line: -wins[line])
    groups = f"{len(ready)} group{'s' if len(ready) > 1 else ''}"
    parts = [f"{names[line]} {'in' if i else 'is ahead in'} {wins[line]}" for i, line in enumerate(ranked)]
    if parts:
        parts[0] += f" of {groups}"
    even = len(ready) - wins.total()
    if even:
        by = f" by more than {report['margin']:g}" if report["margin"] and not report["log"] else ""
        parts.append(f"none{by} in {even}" if parts else f"no line is ahead{by} in any of {groups}")
    waiting = len(panels) - len(ready)
    return ", ".join(parts) + (f"; {waiting} cannot be compared yet" if waiting else "") + "."
