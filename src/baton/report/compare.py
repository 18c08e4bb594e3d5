"""A study's results beside the paper's: cell by cell, how far apart, and whether that is within what seeds do."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from baton import paper
from baton.report import latex, words
from baton.report.curves import Point
from baton.report.grid import Found, Panel, ahead, leader
from baton.report.tables import place, scaled, shown, valued
from baton.search import match
from baton.study import Study

Row = dict[str, Any]
SEEDS = 3  # of the paper, where it gives a standard deviation
ROUNDING = 0.5  # points: what is not a matter of seeds, such as which evaluations are the last
CHANCE = 10.0 + ROUNDING  # per cent: what the paper writes of a run that diverged, with ten classes


def rows(study: Study, panels: Sequence[Panel], found: Found) -> list[Row] | None:
    """Every result of ours with the paper's; None where [report] paper is empty.

    within: whether they agree; None where either is missing, or where the study was scaled. winner: whether the same
    line is ahead in the group; peak: whether the same value of the swept field is best.
    """
    if not study.report.paper:
        return None
    table, made = match.table(study), []
    names = {field: words.names(study, field) for field in study.swept}
    labels = words.lines(study)
    for panel in panels:
        own: list[Row] = []
        for line in panel.settings:
            first = {"group": place(study, panel), "line": labels[line], "key": line}
            own += [{**first, **row} for row in _line(study, panel, line, found, table, names)]
        agree = _winner(study, panel, own)
        made += [{**row, "winner": agree} for row in own]
    return made


def _line(
    study: Study, panel: Panel, line: Any, found: Found, table: Sequence[Row], names: dict[str, dict[Any, str]]
) -> Iterator[Row]:
    """One line of a panel: its best, or each of its points where the paper's table has the swept field."""
    curve, settings = panel.curves[line], panel.settings[line]
    swept = [field for field in study.swept if field in table[0]]
    theirs = match.alike(study, table, settings[0], swept)
    if not swept:
        yield {"value": "", "peak": None, **_beside(study, curve.best, theirs)}
        return
    wanted, by_value = {s.run_id for s in found.wanted}, valued(study, settings)
    points = {point.value: point for point in curve.points}
    peak = None
    if theirs and curve.best and not curve.best.lost and not study.shrunk:
        peak = bool(match.at_value(match.peaks(theirs), by_value[curve.best.value][0], swept))
    for value, own in by_value.items():
        if any(s.run_id in wanted or s.run_id in found.runs for s in own):  # else a search gave it up
            named = ", ".join(f"{field} = {known[study.at(own[0], field)]}" for field, known in names.items())
            beside = _beside(study, points.get(value), match.at_value(theirs, own[0], swept))
            yield {"value": named, "peak": peak, **beside}


def _beside(study: Study, ours: Point | None, theirs: Sequence[Row]) -> Row:
    """One result of ours and the paper's."""
    row: Row = theirs[0] if theirs else {}
    mean, std = row.get("mean"), row.get("std")
    sound = ours if ours and not ours.lost else None
    difference = sound.mean - mean if sound and mean is not None else None
    allowed = _allowed(sound, std) if sound and difference is not None and not study.shrunk else None
    within, why = _verdict(study, ours, mean, difference, allowed)
    return {
        "ours": sound.mean if sound else None,
        "ours_std": sound.std if sound else None,
        "seeds": ours.seeds if ours else 0,
        "paper": mean,
        "paper_std": std,
        "difference": difference,
        "allowed": allowed,
        "within": within,
        "why": why,
        "ours_text": shown(ours, study.report.metric),
        "paper_text": "–" if mean is None else f"{mean:.2f}" + (f" ± {std:.2f}" if std is not None else ""),
        "difference_text": "" if difference is None else f"{difference:+.2f}",
        "allowed_text": "" if allowed is None else f"{allowed:.2f}",
    }


def _allowed(ours: Point, std: float | None) -> float:
    """How far apart two results may be that differ by their seeds alone."""
    own = 0.0 if math.isnan(ours.std) else ours.std**2  # of one seed, where nothing is known of others
    variance = own / ours.seeds + (std**2 / SEEDS if std is not None else own)
    return 2 * math.sqrt(variance) + ROUNDING


def _verdict(
    study: Study, ours: Point | None, mean: float | None, difference: float | None, allowed: float | None
) -> tuple[bool | None, str]:
    if ours is None or mean is None:
        return None, "not run" if ours is None else "not in the paper"
    if study.shrunk:
        return None, "scaled"
    if difference is None or allowed is None:
        return (True, "both diverged") if mean <= CHANCE else (False, "ours diverged")
    return (True, "agrees") if abs(difference) <= allowed else (False, "differs")


def _winner(study: Study, panel: Panel, own: Sequence[Row]) -> bool | None:
    """Whether the line that is ahead in the paper is ahead in ours, by the same margin; or none in both."""
    scores: dict[Any, float] = {}
    for row in own:
        if row["paper"] is not None:
            scores[row["key"]] = max(row["paper"], scores.get(row["key"], -math.inf))
    ready = len(panel.curves) > 1 and all(curve.best for curve in panel.curves.values())
    if study.shrunk or not ready or set(scores) != set(panel.curves):
        return None
    return bool(leader(scores, study.report) == ahead(panel, study.report))


def summary(found: Sequence[Row]) -> str:
    """How many cells agree, which is farthest off, and whether the winners are the paper's."""
    judged = [row for row in found if row["within"] is not None]
    why = [row["why"] for row in found]
    if "scaled" in why:
        return "Scaled runs cannot be compared with the paper's."
    left = [f"{why.count(word)} {word}" for word in ("not run", "not in the paper") if word in why]
    if not judged:
        return "; ".join(["No cell can be compared with the paper's", *left]) + "."
    parts = [f"{sum(row['within'] for row in judged)} of {len(judged)} cells agree within the joint spread"]
    numbers = [row for row in judged if row["difference"] is not None]
    if numbers:
        far = max(numbers, key=lambda row: abs(row["difference"]))
        where = ", ".join(filter(None, (far["group"], far["line"], far["value"])))
        parts.append(f"largest difference {far['difference_text']} ({where})")
    winners = list({row["group"]: row["winner"] for row in found if row["winner"] is not None}.values())
    if winners:
        parts.append(f"the same line, or none, is ahead in {sum(winners)} of {words.counted(len(winners), 'group')}")
    peaks = list({(row["group"], row["line"]): row["peak"] for row in found if row["peak"] is not None}.values())
    if peaks:
        parts.append(f"the same value is best on {sum(peaks)} of {words.counted(len(peaks), 'line')}")
    return "; ".join([*parts, *left]) + "."


def caption(study: Study, found: Sequence[Row]) -> str:
    """What is beside what, and what counts as agreement."""
    name = study.report.paper
    first = f"Ours beside the paper's {paper.TABLES[name][0]} ({paper.TABLES[name][1]})."
    if study.shrunk:
        return f"{first} {scaled(study)} Scaled runs cannot be compared with the paper's, so that nothing is judged."
    if "std" in paper.table(name)[0]:
        spread, is_ = f"S²/{SEEDS}", f"S the paper's over {SEEDS}"
    else:
        spread, is_ = "s²", "taken for the paper's one seed too"
    rule = f"They agree where they are at most 2 √(s²/n + {spread}) + {ROUNDING:g} points apart"
    gone = any(row["why"] in ("both diverged", "ours diverged") for row in found)
    lost = f" A run of ours that diverged agrees with at most {CHANCE:g} %." if gone else ""
    return f"{first} {rule}: s is our standard deviation over n seeds and the last evaluations, {is_}.{lost}"


def files(study: Study, found: Sequence[Row] | None) -> dict[str, bytes]:
    """The comparison as CSV, Markdown and LaTeX, by file name; none where there is none."""
    if not found:
        return {}
    stem = f"{words.stem(study.name)}-paper"
    return {f"{stem}.csv": _csv(found), f"{stem}.md": _md(study, found), f"{stem}.tex": _tex(study, stem, found)}


def _csv(found: Sequence[Row]) -> bytes:
    """One line a cell, every digit kept; 1 yes, 0 no, empty where there is nothing to say."""
    numbers = ["ours", "ours_std", "seeds", "paper", "paper_std", "difference", "allowed"]
    flags = ["within", "winner", "peak"]
    lines: list[list[Any]] = [["group", "line", "value", *numbers, *flags, "why"]]
    for row in found:
        told = ["" if row[key] is None else int(row[key]) for key in flags]
        lines.append([row["group"], row["line"], row["value"], *(row[key] for key in numbers), *told, row["why"]])
    return words.as_csv(lines)


def _cells(study: Study, found: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """The table as one reads it: its head and its body."""
    keys = ["group", "line", *(["value"] if any(row["value"] for row in found) else [])]
    head = [{"line": study.report.lines or "line", "value": "at"}.get(key, key) for key in keys]
    texts = ["ours", "paper", "difference", "allowed"]
    body = [[*(row[key] for key in keys), *(row[f"{key}_text"] for key in texts), row["why"]] for row in found]
    return [*head, *texts, ""], body


def _md(study: Study, found: Sequence[Row]) -> bytes:
    head, body = _cells(study, found)
    marked = [
        [*cells, f"**{last}**" if row["within"] is False else last]
        for (*cells, last), row in zip(body, found, strict=True)
    ]
    return f"{words.as_md(head, marked)}\n{summary(found)}\n\n{caption(study, found)}\n".encode()


def _tex(study: Study, stem: str, found: Sequence[Row]) -> bytes:
    head, body = _cells(study, found)
    lines = [latex.line([latex.escape(name[:1].upper() + name[1:]) for name in head]), r"\midrule"]
    for i, (group, *cells) in enumerate(body):
        again = i > 0 and group == body[i - 1][0]
        if i and not again:
            lines.append(r"\addlinespace")
        strong = [*[False] * (len(cells) - 1), found[i]["within"] is False]
        made = [latex.cell(text, bold) for text, bold in zip(cells, strong, strict=True)]
        lines.append(latex.line(["" if again else latex.escape(group), *made]))
    return latex.table(study, stem, f"{caption(study, found)} {summary(found)}", "l" * len(head), lines)
