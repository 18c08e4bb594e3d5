"""From the tables of a TOML file to groups of settings."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from baton.errors import BadInput, nearest
from baton.setting import Setting

Table = dict[str, Any]


class Level(NamedTuple):
    """Fields that are the same, and axes to cross: of the whole study, of a case, of a group."""

    fields: Table
    axes: dict[str, list[Any]]


class Points(NamedTuple):
    """The settings of a study by group, and how their values are called."""

    groups: dict[str, list[Setting]]
    labels: dict[tuple[str, Any], str]  # (field, value) -> its name in [names]


def points(table: Table) -> Points:
    """Every setting: groups x cases x axes, later ones replacing the fields and axes of earlier ones."""
    names = _names(table.get("names", {}))
    whole = Level(dict(table.get("base", {})), _axes(table.get("axes", {}), "axes"))
    cases = [_level(case, f"cases[{i}]") for i, case in enumerate(_cases(table))]
    found = Points({}, {})
    seen: dict[str, str] = {}  # run id -> group
    for group, own in (table.get("groups") or {"all": {}}).items():
        last = _level(own, f"groups.{group}")
        found.groups[group] = []
        for case in cases:
            for point in _cross(_over(_over(whole, case), last)):
                setting = Setting(**{field: _spec(value, names) for field, value in point.items()})
                _once(setting, group, seen)
                found.groups[group].append(setting)
                for field, value in point.items():
                    if isinstance(value, str) and value in names:
                        found.labels[field, getattr(setting, field)] = value
    return found


def merged(below: Table, above: Table) -> Table:
    """Two tables as one; where both have a key, tables merge and everything else is the one above."""
    both = {key: merged(below[key], above[key]) for key in below if _tables(below.get(key), above.get(key))}
    return {**below, **above, **both}


def is_table(value: Any, where: str) -> Table:
    """The value, which has to be a table."""
    if not isinstance(value, dict):
        raise BadInput(f"{where}: {value!r} is not a table; [{where}] and lines of key = value are right")
    return value


def _tables(a: Any, b: Any) -> bool:
    return isinstance(a, dict) and isinstance(b, dict)


def _names(table: Table) -> dict[str, str]:
    for label, spec in table.items():
        if not isinstance(spec, str):
            raise BadInput(f"names.{label}: {spec!r} is not a name such as 'exdir:C=1,alpha=10'")
    return table


def _spec(value: Any, names: dict[str, str]) -> Any:
    return names.get(value, value) if isinstance(value, str) else value


def _cases(table: Table) -> list[Table]:
    cases = table.get("cases", [{}])
    if not isinstance(cases, list) or not cases:
        raise BadInput(f"cases: {cases!r} is not a list of tables; [[cases]] and lines of key = value are right")
    return [is_table(case, f"cases[{i}]") for i, case in enumerate(cases)]


def _level(table: Table, where: str) -> Level:
    own = is_table(table, where)
    fields = {key: value for key, value in own.items() if key != "axes"}
    return Level(fields, _axes(own.get("axes", {}), f"{where}.axes"))


def _axes(table: Table, where: str) -> dict[str, list[Any]]:
    for key, values in is_table(table, where).items():
        if key not in Setting.model_fields:
            raise BadInput(f"{where}.{key}: no such setting; {nearest(key, Setting.model_fields)}")
        if not isinstance(values, list) or not values:
            raise BadInput(f"{where}.{key}: {values!r} is not a list of values; [{values!r}] is right")
        for value in values:
            if values.count(value) > 1:
                raise BadInput(f"{where}.{key}: {value!r} is given twice; each value once is right")
    return table


def _over(below: Level, above: Level) -> Level:
    fields = {key: value for key, value in below.fields.items() if key not in above.axes} | above.fields
    axes = {key: values for key, values in below.axes.items() if key not in above.fields} | above.axes
    return Level(fields, axes)


def _cross(level: Level) -> Iterator[Table]:
    for point in itertools.product(*level.axes.values()):
        yield {**level.fields, **dict(zip(level.axes, point, strict=True))}


def _once(setting: Setting, group: str, seen: dict[str, str]) -> None:
    if setting.run_id in seen:
        where = f"groups.{group}: the run {setting.run_id} (lr = {setting.lr:g}, seed = {setting.seed}, ...)"
        raise BadInput(f"{where} is in groups.{seen[setting.run_id]} already; each run once is right")
    seen[setting.run_id] = group
