"""Tables: a row a group, a column a line; as text for people and as numbers for programs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from baton.report import words
from baton.report.curves import Curve, Point, swept
from baton.report.grid import Panel, ahead, ahead_together
from baton.report.search import found_how, place, search_files, search_rows
from baton.setting import Setting
from baton.study import Study

__all__ = ["caption", "findings", "place", "rows", "search_files", "search_rows", "to_csv", "to_md", "valued"]
Cell = dict[str, Any]
Row = dict[str, Any]


def rows(study: Study, panels: Sequence[Panel]) -> list[Row]:
    """The table of a study: {figure, figure_text, group, missing, cells}; in cells one entry a line of the study."""
    lines = study.values(study.report.lines)
    names = {field: words.names(study, field) for field in study.swept}
    figures = words.names(study, study.report.figures) if study.report.figures else {}
    return [
        {
            "figure": words.value(panel.figure),
            "figure_text": figures.get(panel.figure, ""),
            "group": panel.group,
            "missing": sum(curve.missing for curve in panel.curves.values()),
            "cells": [_cell(line, panel, study, names) for line in lines],
        }
        for panel in panels
    ]


def valued(study: Study, settings: Sequence[Setting]) -> dict[Any, list[Setting]]:
    """The runs of a line by what Point.value of its curve says of them, in the study's order."""
    found: dict[Any, list[Setting]] = {}
    for s in settings:
        found.setdefault(swept(s, study.swept), []).append(s)
    return found


def shown(point: Point | None, metric: str) -> str:
    """`83.00 ± 1.32`, or why there is no such number."""
    if point is None:
        return "not run"
    return "diverged" if point.lost else f"{words.number(point.mean, metric)} ± {words.number(point.std, metric)}"


def _cell(line: Any, panel: Panel, study: Study, names: dict[str, dict[Any, str]]) -> Cell:
    """One line of one panel: numbers by the name of their column, and how they read."""
    report, curve = study.report, panel.curves.get(line)
    if curve is None:
        return {"text": "", "note": "", "ahead": False, "line": line, "numbers": None}
    best = curve.best
    own = valued(study, panel.settings.get(line, ())).get(best.value) if best and best.seeds else None
    chosen = {field: study.at(own[0], field) if own else "" for field in names}
    numbers = {
        "mean": best.mean if best else "",
        "std": best.std if best else "",
        **chosen,
        "seeds": best.seeds if best else 0,
        "complete": curve.complete,
        "diverged": curve.lost,
        "missing": curve.missing,
    }
    there = {field: x for field, x in chosen.items() if x is not None} if best and not best.lost else {}
    told = [f"{field} {names[field][x]}" for field, x in there.items()]
    won, note = line == ahead(panel, report), _note(curve, told)
    return {"text": shown(best, report.metric), "note": note, "ahead": won, "line": line, "numbers": numbers}


def _note(curve: Curve, chosen: Sequence[str]) -> str:
    parts = list(chosen)
    if curve.best and not curve.best.lost and curve.best.seeds < curve.seeds:
        parts.append(f"{curve.best.seeds} of {curve.seeds} seeds")
    if curve.lost:
        parts.append(f"{curve.lost} of {words.counted(curve.complete, 'run')} diverged")
    elif curve.best and curve.best.lost:
        parts.append("every candidate, in short runs")
    return ", ".join(parts)


def to_csv(study: Study, table: Sequence[Row]) -> bytes:
    """One line a group and line of the study, every digit kept."""
    report = study.report
    named = {"figure": report.figures, "group": "group", "line": report.lines}
    keys = [key for key, name in named.items() if name]
    numbers = ["mean", "std", *study.swept, "seeds", "complete", "diverged", "missing"]
    lines: list[list[Any]] = [[*(named[key] for key in keys), *numbers, "ahead"]]
    for row in table:
        for cell in row["cells"]:
            if cell["numbers"] is not None:
                first = [{**row, "line": cell["line"]}[key] for key in keys]
                lines.append([*first, *(cell["numbers"][key] for key in numbers), int(cell["ahead"])])
    return words.as_csv(lines)


def to_md(study: Study, table: Sequence[Row]) -> bytes:
    """The table as one reads it."""
    report = study.report
    names = words.lines(study)
    figures, missing = bool(report.figures), any(row["missing"] for row in table)
    head = [*([report.figures] if figures else []), "group", *names.values(), *(["missing"] if missing else [])]
    body = []
    for row in table:
        first = [*([row["figure_text"]] if figures else []), row["group"]]
        body.append([*first, *map(_md_cell, row["cells"]), *([str(row["missing"])] if missing else [])])
    return f"{words.as_md(head, body)}\n{caption(study)}\n".encode()


def _md_cell(cell: Cell) -> str:
    text = f"**{cell['text']}**" if cell["ahead"] else cell["text"]
    return f"{text} ({cell['note']})" if cell["note"] else text


def caption(study: Study) -> str:
    """What the numbers of the table are."""
    chosen = f", at the {chosen_how(study)}" if study.swept else ""
    return " ".join(filter(None, (f"{averaged(study)}{chosen}.", bold(study), scaled(study))))


def averaged(study: Study) -> str:
    """What is averaged: the metric, the seeds and the evaluations."""
    metric = words.metric(study.report.metric)
    seeds = len(study.values("seed"))
    first = f"{metric[0].upper()}{metric[1:]}: mean ± standard deviation over {words.counted(seeds, 'seed')}"
    return f"{first} and {words.last(study.report.last)}"


def chosen_how(study: Study) -> str:
    """Which value of the swept fields the numbers belong to."""
    fields = " and ".join(study.swept)
    if study.tune is None:
        return f"best {fields}"
    if study.tune.method == "paper":
        return f"{fields} that the paper took"
    return f"{fields} that a search with seed {study.search_seed} found ({found_how(study.tune)})"


def bold(study: Study) -> str:
    """What is set in bold, where there is anything to be ahead of."""
    report = study.report
    if len(study.values(report.lines)) < 2:
        return ""
    return "Bold: better." if report.log or not report.margin else f"Bold: better by more than {report.margin:g}."


def scaled(study: Study) -> str:
    """What --scale made smaller."""
    if study.shrunk is None:
        return ""
    cut = study.shrunk
    rounds = [f"{now} rounds instead of {before}" for before, now in cut.rounds.items() if now != before]
    seeds = [f"{words.counted(cut.seeds[1], 'seed')} instead of {cut.seeds[0]}"] if cut.seeds[0] != cut.seeds[1] else []
    return f"Scaled by {cut.scale:g}: {', '.join([*rounds, *seeds])}."


def findings(study: Study, panels: Sequence[Panel]) -> list[str]:
    """Who is ahead and where, in plain words: one sentence a value of the figures field."""
    field = study.report.figures
    found = []
    for figure in dict.fromkeys(panel.figure for panel in panels):
        told = _finding(study, [panel for panel in panels if panel.figure == figure])
        found.append(f"{words.called(study, field, figure)}: {told}" if field else _sentence(told))
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
    return ", ".join(parts) + (f"; {waiting} cannot be compared yet" if waiting else "") + "."
