"""Fields by name: those of a setting, and options of its specs, as `algorithm.mu`."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from baton import names
from baton.errors import BadInput, nearest
from baton.setting import ROOMS, Setting


@lru_cache(maxsize=1024)
def parted(name: str) -> tuple[str, str]:
    """`algorithm.mu` -> (algorithm, mu); what names no option of a spec -> (itself, '')."""
    field, _, option = name.partition(".")
    return (field, option) if option and field in ROOMS else (name, "")


def known(name: str) -> bool:
    """Whether there is such a field; which options a spec has is known with the spec."""
    return parted(name)[0] in Setting.model_fields


def value(setting: Setting, name: str, but: Iterable[str] = ()) -> Any:
    """The value of a field, a spec without the options in `but`; None for an option that the spec does not have."""
    field, option = parted(name)
    spec = getattr(setting, field)
    if option:
        return _option(field, spec, option)
    left = frozenset(key for own, key in map(parted, but) if key and own == field)
    return _without(field, spec, left) if left else spec


@lru_cache(maxsize=4096)
def _option(field: str, spec: str, key: str) -> Any:
    return names.option(field, spec, ROOMS[field], key)


@lru_cache(maxsize=4096)
def _without(field: str, spec: str, keys: frozenset[str]) -> str:
    return names.without(field, spec, ROOMS[field], keys)


def made(point: dict[str, Any]) -> Setting:
    """A setting of fields and options: an option replaces what its spec, or the spec's default, says of it."""
    fields = {name: x for name, x in point.items() if not parted(name)[1]}
    for field, room in ROOMS.items():
        own = {parted(name)[1]: x for name, x in point.items() if name not in fields and parted(name)[0] == field}
        if own:
            spec = fields[field] if field in fields else getattr(_default(fields), field)
            fields[field] = names.replaced(field, spec, room, own) if isinstance(spec, str) else spec
    return Setting(**fields)


def _default(fields: dict[str, Any]) -> Setting:
    """What a setting is where nothing but its data set is given."""
    return Setting(**{field: fields[field] for field in ("dataset",) if field in fields})


def check(where: str, used: str | Sequence[str], settings: Sequence[Setting]) -> None:
    """Refuse an option that no setting has."""
    for name in [used] if isinstance(used, str) else used:
        field, option = parted(name)
        if option:
            specs = {getattr(s, field) for s in settings}
            there = {key for spec in specs for key in names.options(names.bind(field, spec, ROOMS[field])[1])}
            if option not in there:
                hint = nearest(option, there) if there else "they take none"
                raise BadInput(f"{where}: no {field} of this study has a parameter {option!r}; {hint}")
