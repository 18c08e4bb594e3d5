"""What a study file may hold: the keys of its tables, with their defaults."""

from typing import Any

from baton.errors import BadInput, nearest
from baton.setting import Setting

KEYS = ("like", "title", "about", "names", "base", "axes", "cases", "groups", "tune", "report")
TABLES = ("names", "base", "axes", "groups", "tune", "report")
REPORT: dict[str, Any] = {
    "metric": "test_accuracy",
    "also": [],  # further metrics, a row of panels each
    "best": "max",  # which end of the metric is better
    "over": "lr",  # the field whose best value is chosen for each curve
    "among": [],  # values of that field to choose from; empty: all
    "lines": "algorithm",  # one curve, one table column, a value
    "figures": "",  # one figure a value of this field
    "columns": 3,  # panels in a row
    "across": [],  # fields that are columns of the paper's form of the table
    "down": [],  # fields that are its rows
    "last": 10,  # evaluations averaged for the table
    "smooth": 0.0,  # moving average over this part of the evaluations, in figures only
    "log": False,
    "margin": 0.0,  # a result better by more than this is set in bold
    "shade": "std",  # over seeds: std or minmax
    "paper": "",  # the paper's table to set these results beside
}
TUNE: dict[str, Any] = {
    "method": "simple",  # a name of baton.search.rules.METHODS
    "over": ["lr"],  # the fields searched
    "seed": -1,  # searched with this seed; -1: the study's first
    "short": 1000,  # rounds of the coarse search
    "within": 3.0,  # candidates: at most this far from the best, in the metric's unit
    "last": 10,  # evaluations averaged in the coarse search
}
CHOICES = {"best": ("max", "min"), "shade": ("std", "minmax")}


def report(given: dict[str, Any]) -> dict[str, Any]:
    """[report] with its defaults, checked."""
    found = _filled("report", given, REPORT)
    for key in ("last", "columns"):
        if found[key] < 1:
            raise BadInput(f"[report] {key}: {found[key]}; at least 1 is right")
    for key, allowed in CHOICES.items():
        if found[key] not in allowed:
            raise BadInput(f"[report] {key}: {found[key]!r}; {' or '.join(allowed)} is right")
    if not 0 <= found["smooth"] < 1:
        raise BadInput(f"[report] smooth: {found['smooth']}; a part of the evaluations, from 0 to 1, is right")
    for key in ("over", "lines", "figures"):
        _field("report", key, found[key])
    for key in ("across", "down"):
        for field in found[key]:
            _field("report", key, field)
    return found


def tune(given: dict[str, Any]) -> dict[str, Any]:
    """[tune] with its defaults, checked; its method and seed where they are used."""
    found = _filled("tune", given, TUNE)
    for key in ("short", "last"):
        if found[key] < 1:
            raise BadInput(f"[tune] {key}: {found[key]}; at least 1 is right")
    if found["within"] < 0:
        raise BadInput(f"[tune] within: {found['within']}; 0 or more is right")
    if not found["over"]:
        raise BadInput("[tune] over: [] searches nothing; ['lr'] is right")
    for field in found["over"]:
        _field("tune", "over", field)
        if field in ("seed", "rounds"):
            raise BadInput(f"[tune] over: {field!r} cannot be searched; 'lr' or 'clip' is right")
    return found


def known(table: dict[str, Any], keys: Any, where: str) -> None:
    """Refuse a key that is not known here."""
    for key in table:
        if key not in keys:
            raise BadInput(f"{where}: no key {key!r}; {nearest(key, keys)}")


def is_table(value: Any, where: str) -> dict[str, Any]:
    """The value, which has to be a table."""
    if not isinstance(value, dict):
        raise BadInput(f"{where}: {value!r} is not a table; [{where}] and lines of key = value are right")
    return value


def _filled(where: str, given: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    known(given, defaults, f"[{where}]")
    found = {**defaults, **given}
    for key, default in defaults.items():
        kinds = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(found[key], kinds) or (isinstance(found[key], bool) and not isinstance(default, bool)):
            raise BadInput(f"[{where}] {key}: {found[key]!r} is not a {type(default).__name__}")
    return found


def _field(where: str, key: str, field: Any) -> None:
    if field and field not in Setting.model_fields:
        raise BadInput(f"[{where}] {key}: no such setting {field!r}; {nearest(str(field), Setting.model_fields)}")
