"""Tables: a row a group, a column a line; as text for people and as numbers for programs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from baton.report import words
from baton.report.curves import Curve, Point, swept
from baton.report.grid import Panel, ahead
from baton.report.search import found_how, place, search_files, search_rows
from baton.search.rules import on_test_set, scored
from baton.setting import Setting
from baton.study import Study

__all__ = ["caption", "place", "rows", "search_files", "search_rows", "to_csv", "to_md", "valued"]
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
    """`83.00 ± 1.32`, or why there is no such number; one seed's is alone, a power of ten has its interval's ends."""
    if point is None:
        return "not run"
    mean = words.number(point.mean, metric)
    if point.lost:
        return "diverged"
    if np.isnan(point.half):
        return f"{mean} ± {words.number(point.std, metric)}"
    if np.isinf(point.half):
        return mean
    ends = f"{words.number(point.low, metric)} to {words.number(point.high, metric)}"
    return f"{mean} ({ends})" if point.log else f"{mean} ± {words.number(point.half, metric)}"


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
        "low": best.low if best else "",
        "high": best.high if best else "",
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
    ends = ["low", "high"] if report.spread == "interval" else []
    numbers = ["mean", "std", *ends, *study.swept, "seeds", "complete", "diverged", "missing"]
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
    seeds, last = len(study.values("seed")), words.averaged(study, study.settings, study.report.last)
    first = f"{metric[0].upper()}{metric[1:]}"
    if study.report.spread == "paper":
        return f"{first}: mean ± standard deviation over {words.counted(seeds, 'seed')} and {last}"
    if seeds < 2:
        return f"{first}: one seed, so that there is no interval and no winner; mean over {last}"
    kind = "geometric mean and its" if study.report.log else "mean ±"
    each = last if last == words.last(1) else f"the mean over {last}"
    return f"{first}: {kind} 95 % interval over {words.counted(seeds, 'seed')}, of each {each}"


def chosen_how(study: Study) -> str:
    """Which value of the swept fields the numbers belong to."""
    fields = " and ".join(study.swept)
    if study.tune is None:
        return f"best {fields}{', chosen on the test set' if on_test_set(study) else ''}"
    if study.tune.method == "paper":
        return f"{fields} that the paper took"
    held = " on samples held back from training" if scored(study).startswith("validation_") else ""
    where = ", chosen on the test set" if on_test_set(study) else held
    return f"{fields} that a search with seed {study.search_seed} found{where} ({found_how(study.tune)})"


def bold(study: Study) -> str:
    """What is set in bold, where there is anything to be ahead of."""
    report = study.report
    if len(study.values(report.lines)) < 2:
        return ""
    by = "" if report.log or not report.margin else f" by more than {report.margin:g}"
    if report.spread == "paper":
        return f"Bold: better{by}."
    if len(study.values("seed")) < 2:
        return ""
    corrected = ", corrected for all pairs of its group" if len(study.values(report.lines)) > 2 else ""
    return f"Bold: ahead of every other{by}, by seeds and test rows (p below 0.05{corrected})."


def scaled(study: Study) -> str:
    """What --scale made smaller."""
    if study.shrunk is None:
        return ""
    cut = study.shrunk
    rounds = [f"{now} rounds instead of {before}" for before, now in cut.rounds.items() if now != before]
    seeds = [f"{words.counted(cut.seeds[1], 'seed')} instead of {cut.seeds[0]}"] if cut.seeds[0] != cut.seeds[1] else []
    return f"Scaled by {cut.scale:g}: {', '.join([*rounds, *seeds])}."
