"""From the tables of a TOML file to groups of settings."""

import itertools
from collections.abc import Iterator, Sequence
from math import log10, prod
from typing import Any, NamedTuple

from baton.errors import BadInput, nearest
from baton.setting import ROOMS, Setting
from baton.study.fields import known, made, parted, value

Table = dict[str, Any]
MOST = 1_000_000  # runs of a study


class Level(NamedTuple):
    """Fields that are the same, and axes to cross: of the whole study, of a case, of a group."""

    fields: Table
    axes: dict[str, list[Any]]


class Points(NamedTuple):
    """The settings of a study by group, and how their values are called."""

    groups: dict[str, list[Setting]]
    labels: dict[tuple[str, Any], str]  # (field, value) -> its name in [names]


def flat(table: Table) -> Table:
    """The tables of a study with options as keys: `algorithm.mu = 1` is, to TOML, a table with a key."""
    own: Table = {key: _flat(table[key]) for key in ("base", "axes") if key in table}
    if isinstance(table.get("groups"), dict):
        own["groups"] = {name: _flat_level(group) for name, group in table["groups"].items()}
    if isinstance(table.get("cases"), list):
        own["cases"] = [_flat_level(case) for case in table["cases"]]
    return table | own


def _flat_level(own: Any) -> Any:
    found = _flat(own)
    return found | {"axes": _flat(found["axes"])} if isinstance(found, dict) and "axes" in found else found


def _flat(own: Any) -> Any:
    if not isinstance(own, dict):
        return own
    found: Table = {}
    for key, x in own.items():
        opened = {f"{key}.{option}": y for option, y in x.items()} if key in ROOMS and isinstance(x, dict) else {key: x}
        for name in opened:
            if name in found:
                raise BadInput(f"{name}: it is given as {name} and as {name!r}; one of them is right")
        found |= opened
    return found


def points(table: Table, options: Sequence[str]) -> Points:
    """Every setting: groups x cases x axes, later ones replacing the fields and axes of earlier ones.

    options: those that are fields here, which a spec's label says nothing about.
    """
    names = _names(table.get("names", {}))
    whole = Level(dict(table.get("base", {})), _axes(table.get("axes", {}), "axes"))
    cases = [_level(case, f"cases[{i}]") for i, case in enumerate(_cases(table))]
    groups = {name: _level(own, f"groups.{name}") for name, own in (table.get("groups") or {"all": {}}).items()}
    levels = {name: [_over(_over(whole, case), own) for case in cases] for name, own in groups.items()}
    _countable(levels)
    found = Points({}, {})
    seen: dict[str, str] = {}  # a setting's key -> group
    for group in groups:
        found.groups[group] = []
        for level in levels[group]:
            for point in _cross(level):
                setting = made({field: _spec(field, x, names) for field, x in point.items()})
                _once(setting, group, seen)
                found.groups[group].append(setting)
                for but in ((), options) if options else ((),):
                    found.labels.update(_labels(setting, point, names, but))
    return found


def _labels(setting: Setting, point: Table, names: dict[str, str], but: Sequence[str]) -> dict[tuple[str, Any], str]:
    """Specs without the options in `but`, as [names] calls them; other options of their own are told with them."""
    found = {}
    for field, label in point.items():
        if isinstance(label, str) and label in names and not parted(field)[1]:
            own = [name for name in point if parted(name)[0] == field and name not in (field, *but)]
            told = [f"{parted(name)[1]} = {point[name]}" for name in own]
            found[field, value(setting, field, but)] = ", ".join([label, *told])
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


def _spec(field: str, x: Any, names: dict[str, str]) -> Any:
    return names.get(x, x) if isinstance(x, str) and not parted(field)[1] else x


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
        if not known(key):
            raise BadInput(f"{where}.{key}: no such setting; {nearest(key, Setting.model_fields)}")
        if not isinstance(values, list) or not values:
            raise BadInput(f"{where}.{key}: {values!r} is not a list of values; [{values!r}] is right")
        met = set[Any]()
        for x in values:
            same = repr(x) if isinstance(x, list | dict) else x
            if same in met:
                raise BadInput(f"{where}.{key}: {x!r} is given twice; each value once is right")
            met.add(same)
    return table


def _over(below: Level, above: Level) -> Level:
    fields = {key: value for key, value in below.fields.items() if key not in above.axes} | above.fields
    axes = {key: values for key, values in below.axes.items() if key not in above.fields} | above.axes
    return Level(fields, axes)


def _countable(levels: dict[str, list[Level]]) -> None:
    """Refuse, before any is made, more settings than anybody could train."""
    count = sum(prod(len(values) for values in level.axes.values()) for own in levels.values() for level in own)
    if count > MOST:
        size = f"{count:,}" if count < 10**18 else f"more than 10^{int(log10(count))}"
        raise BadInput(f"axes: their product is {size} runs; at most {MOST:,} is right")


def _cross(level: Level) -> Iterator[Table]:
    for point in itertools.product(*level.axes.values()):
        yield {**level.fields, **dict(zip(level.axes, point, strict=True))}


def _once(setting: Setting, group: str, seen: dict[str, str]) -> None:
    if setting.key in seen:
        where = f"groups.{group}: the run of {setting.algorithm} (lr = {setting.lr:g}, seed = {setting.seed}, ...)"
        raise BadInput(f"{where} is in groups.{seen[setting.key]} already; each run once is right")
    seen[setting.key] = group
