"""The paper's form of a table: some fields are rows, others are columns, the values in between."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from baton.errors import BadInput
from baton.report import words
from baton.report.curves import Point, choose
from baton.report.grid import Panel, ahead
from baton.report.tables import averaged, chosen_how, scaled, shown, valued
from baton.report.tables import caption as results_caption
from baton.setting import Setting
from baton.study import Study

Key = tuple[Any, ...]
Cell = dict[str, Any]  # text, strong, note, point
EMPTY: Cell = {"text": "–", "strong": False, "note": "", "point": None}


class Form(NamedTuple):
    """Results by the fields of their rows and the fields of their columns."""

    down: list[str]
    across: list[str]
    rows: list[Key]
    columns: list[Key]
    cells: dict[tuple[Key, Key], Cell]  # a row, a column; not every pair has to be there
    names: dict[str, dict[Any, str]]  # field -> value -> as it is printed

    def cell(self, row: Key, column: Key) -> Cell:
        """What stands there."""
        return self.cells.get((row, column), EMPTY)


def form(study: Study, panels: Sequence[Panel]) -> Form | None:
    """A study's results as [report] down and across lay them out; None where they are empty."""
    down, across = study.report.down, study.report.across
    fields = [*down, *across]
    if not fields:
        return None
    for field in fields:
        if field == "seed" or fields.count(field) > 1:
            why = "is averaged over" if field == "seed" else "is there twice"
            raise BadInput(
                f"[report] down, across: {field!r} {why}; fields in which results differ, each once, are right"
            )
    cells: dict[tuple[Key, Key], Cell] = {}
    first: dict[tuple[Key, Key], Setting] = {}
    for key, cell, setting in _cells(study, panels, fields):
        place = key[: len(down)], key[len(down) :]
        if place in cells:
            other = next((f for f in _differ(study, first[place], setting) if f not in fields), "group")
            raise BadInput(f"[report] down, across: results differ in {other!r} too; add it to one of them")
        cells[place], first[place] = cell, setting
    names = {field: words.names(study, field) for field in fields}
    return Form(down, across, _order([row for row, _ in cells]), _order([column for _, column in cells]), cells, names)


def _cells(study: Study, panels: Sequence[Panel], fields: Sequence[str]) -> Iterator[tuple[Key, Cell, Setting]]:
    """Every result with its place: the best of each curve, or each of its points where the swept field has a place."""
    every = any(field in fields for field in study.swept)
    for panel in panels:
        won = ahead(panel, study.report)
        for line, settings in panel.settings.items():
            curve, by_value = panel.curves[line], valued(study, settings)
            if not every:
                own = by_value.get(curve.best.value if curve.best else None, settings)
                short = curve.best and not curve.best.lost and curve.best.seeds < curve.seeds
                note = f"{curve.best.seeds} of {curve.seeds} seeds" if curve.best and short else ""
                text = shown(curve.best, study.report.metric)
                cell = {"text": text, "strong": line == won, "note": note, "point": curve.best}
                yield _key(study, own[0], fields), cell, own[0]
                continue
            points = {point.value: point for point in curve.points}
            places: dict[Key, list[tuple[Setting, Point | None]]] = {}
            for value, own in by_value.items():
                places.setdefault(_key(study, own[0], fields), []).append((own[0], points.get(value)))
            for key, held in places.items():
                point = choose([point for _, point in held if point], study.report)
                yield key, _point(study, point, curve.best), held[0][0]


def _point(study: Study, point: Point | None, best: Point | None) -> Cell:
    """One value of the swept field; strong if it is the best, or reads the same."""
    metric = study.report.metric
    if point is None and study.tune and best:  # a search gives up what is not worth training to its end
        return EMPTY
    sound = point is not None and not point.lost
    text = words.number(point.mean, metric) if point and sound else shown(point, metric)
    strong = bool(sound and best and not best.lost and text == words.number(best.mean, metric))
    return {"text": text, "strong": strong, "note": "", "point": point}


def _key(study: Study, setting: Setting, fields: Sequence[str]) -> Key:
    return tuple(study.at(setting, field) for field in fields)


def _differ(study: Study, one: Setting, other: Setting) -> list[str]:
    fields = [field for field in (*Setting.model_fields, *study.options) if field != "seed"]
    return [field for field in fields if study.at(one, field) != study.at(other, field)]


def _order(keys: Sequence[Key]) -> list[Key]:
    """Every key once, those that begin alike together; otherwise as they came."""
    came: dict[Key, int] = {}
    for key in keys:
        for end in range(len(key)):
            came.setdefault(key[: end + 1], len(came))
    return sorted(dict.fromkeys(keys), key=lambda key: [came[key[: end + 1]] for end in range(len(key))])


def runs(keys: Sequence[Key], level: int) -> list[tuple[int, int]]:
    """Where keys agree up to a level: (place of the first, how many)."""
    starts = [i for i, key in enumerate(keys) if i == 0 or key[: level + 1] != keys[i - 1][: level + 1]]
    return [(i, end - i) for i, end in zip(starts, [*starts[1:], len(keys)], strict=True)]


def titles(made: Form) -> list[str]:
    """The heads of the columns that name the rows."""
    return [words.head(field) for field in made.down]


def above(study: Study, made: Form, level: int, key: Key) -> str:
    """What stands above a column at one level of the head: `C = 1`, `K = 5`, `parallel`; 0.1 in a row of rates."""
    field, x = made.across[level], key[level]
    name = made.names[field][x]
    bare = isinstance(x, str) or (field, x) in study.labels
    last = field in study.swept and level == len(made.across) - 1
    return name if bare or last else f"{words.LETTERS.get(field, field)} = {name}"


def heads(study: Study, made: Form) -> list[list[tuple[str, int]]]:
    """The rows of the head: texts and how many columns they span."""
    metric = study.report.metric
    if not made.across:
        return [[*((title, 1) for title in titles(made)), (words.metric(metric), 1)]]
    found = []
    for level in range(len(made.across)):
        last = level == len(made.across) - 1
        beside = [(title, 1) for title in titles(made)] if last else [("" if level else "Setup", len(made.down))]
        spans = [(above(study, made, level, made.columns[i]), n) for i, n in runs(made.columns, level)]
        found.append([*(beside if made.down else []), *spans])
    return found


def tables(study: Study, panels: Sequence[Panel]) -> dict[str, Any] | None:
    """The laid-out table: {head: rows of (text, columns spanned), body: rows of {text, strong, note, head, span}}.

    A cell that names several rows spans them (`span`) and is left out of all but the first of them.
    """
    made = form(study, panels)
    if made is None:
        return None
    body: list[list[Cell]] = [[] for _ in made.rows]
    for level, field in enumerate(made.down):
        for i, n in runs(made.rows, level):
            text = made.names[field][made.rows[i][level]]
            body[i].append({"text": text, "strong": False, "note": "", "head": True, "span": n})
    for cells, row in zip(body, made.rows, strict=True):
        cells += [{**made.cell(row, column), "head": False, "span": 1} for column in made.columns]
    return {"head": heads(study, made), "body": body, "caption": caption(study)}


def caption(study: Study) -> str:
    """What the numbers of the laid-out table are."""
    places = [field for field in study.swept if field in (*study.report.down, *study.report.across)]
    if not places:
        return results_caption(study)
    mean = averaged(study).replace("mean ± standard deviation", "mean").replace("mean ± 95 % interval", "mean")
    left = "–: given up by the search; what it did not choose has its seed alone." if study.tune else ""
    parts = (f"{mean}, by {' and '.join(places)}.", f"Bold: the {chosen_how(study)}.", left, scaled(study))
    return " ".join(filter(None, parts))


def files(study: Study, panels: Sequence[Panel]) -> dict[str, bytes]:
    """The laid-out table as CSV and Markdown, by file name; none where there is no layout."""
    made = form(study, panels)
    if made is None:
        return {}
    stem = f"{words.stem(study.name)}-layout"
    return {f"{stem}.csv": _csv(study, made), f"{stem}.md": _md(study, made)}


def _columns(study: Study, made: Form) -> list[str]:
    levels = range(len(made.across))
    return [", ".join(above(study, made, i, key) for i in levels) or study.report.metric for key in made.columns]


def _beside(made: Form, row: Key) -> list[str]:
    return [made.names[field][x] for field, x in zip(made.down, row, strict=True)]


def _csv(study: Study, made: Form) -> bytes:
    """A row a row, two columns a column: mean and standard deviation, every digit kept; nan where it diverged."""
    names = _columns(study, made)
    lines: list[list[Any]] = [[*made.down, *(head for name in names for head in (name, f"{name} std"))]]
    for row in made.rows:
        points = [made.cell(row, column)["point"] for column in made.columns]
        lines.append([*_beside(made, row), *(x for p in points for x in ((p.mean, p.std) if p else ("", "")))])
    return words.as_csv(lines)


def _md(study: Study, made: Form) -> bytes:
    body = [[*_beside(made, row), *(_md_cell(made.cell(row, c)) for c in made.columns)] for row in made.rows]
    return f"{words.as_md([*titles(made), *_columns(study, made)], body)}\n{caption(study)}\n".encode()


def _md_cell(cell: Cell) -> str:
    text = f"**{cell['text']}**" if cell["strong"] else cell["text"]
    return f"{text} ({cell['note']})" if cell["note"] else text
