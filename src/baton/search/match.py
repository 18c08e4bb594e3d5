"""Which row of a table of the paper a setting of ours belongs to."""

import math
from collections.abc import Sequence
from typing import Any

from baton import paper
from baton.errors import BadInput
from baton.names import split
from baton.setting import ROOMS, Setting
from baton.study import Study

Row = dict[str, Any]
ROUNDS = {"grid": 1000, "fine": 4000}  # tables that say so above themselves, not in a column
MARKS = ("marked", "chosen")  # columns that say which learning rate the paper takes


def table(study: Study) -> list[Row]:
    """The paper's table that [report] paper names."""
    name, metric = study.report.paper, study.report.metric
    found = paper.table(name)
    if "mean" not in found[0]:
        known = " or ".join(each for each in paper.TABLES if "mean" in paper.table(each)[0])
        raise BadInput(f"[report] paper: table {name!r} holds no results; {known} is right")
    if metric != "test_accuracy":
        raise BadInput(f"[report] paper: the paper's tables give test_accuracy, not {metric!r}; paper = '' is right")
    return [row | ({"rounds": ROUNDS[name]} if name in ROUNDS else {}) for row in found]


def alike(study: Study, rows: Sequence[Row], setting: Setting, swept: Sequence[str]) -> list[Row]:
    """The rows about this setting, whatever the swept fields and the seed."""
    fields = [field for field in Setting.model_fields if field in rows[0] and field not in swept]
    ours = {field: _written(study, field, getattr(setting, field)) for field in fields}
    return [row for row in rows if all(_equal(field, x, row[field]) for field, x in ours.items())]


def at_value(rows: Sequence[Row], setting: Setting, swept: Sequence[str]) -> list[Row]:
    """Of these rows the ones that have this setting's swept fields too."""
    return [row for row in rows if all(_equal(field, getattr(setting, field), row[field]) for field in swept)]


def taken(study: Study, setting: Setting, swept: Sequence[str]) -> tuple[list[Row], str]:
    """The rows whose swept fields the paper took into its results, and the table that says so."""
    for name in ("fine", "choices", "grid"):
        rows = peaks(alike(study, paper.table(name), setting, swept))
        if rows:
            return rows, name
    return [], ""


def peaks(rows: Sequence[Row]) -> list[Row]:
    """The rows that the paper marks as best, or that score highest where it marks none."""
    mark = next((key for key in MARKS if rows and key in rows[0]), None)
    top = max((mean for row in rows if (mean := row.get("mean")) is not None), default=None)
    return [row for row in rows if (row[mark] if mark else row["mean"] == top)]


def _written(study: Study, field: str, x: Any) -> Any:
    """A value as the paper's tables have it: names without options, `C = 1` for exdir:C=1,alpha=10."""
    if field == "rounds" and study.shrunk:
        return next(before for before, now in study.shrunk.rounds.items() if now == x)
    if field not in ROOMS:
        return x
    if (field, x) in study.labels and field == "partition":
        return study.labels[field, x]
    name, options = split(field, x, ROOMS[field])
    return f"C = {options['C']}" if name == "exdir" and options.get("alpha") == 10 else name


def _equal(field: str, ours: Any, theirs: Any) -> bool:
    return math.isclose(ours, theirs, rel_tol=1e-9) if field == "lr" else bool(ours == theirs)
