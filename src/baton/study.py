"""A TOML study: a base, axes to cross, named groups, and what to report."""

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from baton.errors import BadInput, nearest
from baton.setting import Setting

KEYS = ("title", "about", "base", "axes", "groups", "report")
REPORT = {  # what [report] may hold, with its defaults
    "metric": "test_accuracy",
    "best": "max",  # which end of the metric is better
    "over": "lr",  # the field whose best value is chosen for each curve
    "among": [],  # values of that field to choose from; empty: all
    "lines": "algorithm",  # one curve, one table column, a value
    "figures": "",  # one figure a value of this field
    "columns": 3,  # panels in a row
    "last": 10,  # evaluations averaged for the table
    "log": False,
    "margin": 0.0,  # a result better by more than this is set in bold
    "shade": "std",  # over seeds: std or minmax
}


class Study(NamedTuple):
    """Named groups of settings."""

    name: str
    title: str
    about: str
    groups: dict[str, list[Setting]]
    report: dict[str, Any]

    @property
    def settings(self) -> list[Setting]:
        """Every run once, in the study's order."""
        return list({s.run_id: s for group in self.groups.values() for s in group}.values())


def find(name: str) -> Path:
    """A study file, or the shipped study of that name."""
    here = Path(__file__).parent
    for folder in (Path(), here / "studies", here.parents[1] / "studies"):
        for path in (folder / name, folder / f"{name}.toml"):
            if path.is_file():
                return path
    raise BadInput(f"study: no file {name!r}; give the path of a TOML file or a shipped name: {', '.join(shipped())}")


def shipped() -> list[str]:
    """Names of the studies that come with Baton."""
    here = Path(__file__).parent
    return sorted({path.stem for folder in (here, here.parents[1]) for path in (folder / "studies").glob("*.toml")})


def read(name: str | Path) -> Study:
    """A study from its TOML file."""
    path = find(str(name))
    try:
        table = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a TOML file: {error}") from None
    try:
        return parse(path.stem, table)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def parse(name: str, table: dict[str, Any]) -> Study:
    """A study from the tables of its TOML file."""
    _known(table, KEYS, "study")
    for key in ("base", "axes", "groups", "report"):
        _table(table.get(key, {}), key)
    _known(table.get("report", {}), REPORT, "[report]")
    base, axes = table.get("base", {}), table.get("axes", {})
    groups: dict[str, list[Setting]] = {}
    for label, group in (table.get("groups") or {"all": {}}).items():
        _table(group, f"groups.{label}")
        _table(group.get("axes", {}), f"groups.{label}.axes")
        own = {key: value for key, value in group.items() if key != "axes"}
        crossed = {key: values for key, values in axes.items() if key not in own} | group.get("axes", {})
        groups[label] = [Setting(**point) for point in _cross({**base, **own}, crossed)]
    report = {**REPORT, **table.get("report", {})}
    _check_report(report)
    return Study(name, table.get("title", name), table.get("about", ""), groups, report)


def _cross(base: dict[str, Any], axes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key, values in axes.items():
        if key not in Setting.model_fields:
            raise BadInput(f"axes.{key}: no such setting; {nearest(key, Setting.model_fields)}")
        if not isinstance(values, list) or not values:
            raise BadInput(f"axes.{key}: {values!r} is not a list of values; [{values!r}] is right")
    for point in itertools.product(*axes.values()):
        yield {**base, **dict(zip(axes, point, strict=True))}


def _table(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise BadInput(f"{where}: {value!r} is not a table; [{where}] and lines of key = value are right")


def _known(table: dict[str, Any], known: Any, where: str) -> None:
    for key in table:
        if key not in known:
            raise BadInput(f"{where}: no key {key!r}; {nearest(key, known)}")


def _check_report(report: dict[str, Any]) -> None:
    for key, default in REPORT.items():
        kinds = (int, float) if isinstance(default, float) else type(default)
        if not isinstance(report[key], kinds):
            raise BadInput(f"[report] {key}: {report[key]!r} is not a {type(default).__name__}")
    for key in ("last", "columns"):
        if report[key] < 1:
            raise BadInput(f"[report] {key}: {report[key]}; at least 1 is right")
    for key, allowed in (("best", ("max", "min")), ("shade", ("std", "minmax"))):
        if report[key] not in allowed:
            raise BadInput(f"[report] {key}: {report[key]!r}; {' or '.join(allowed)} is right")
    for key in ("over", "lines", "figures"):
        if report[key] and report[key] not in Setting.model_fields:
            raise BadInput(
                f"[report] {key}: no such setting {report[key]!r}; {nearest(report[key], Setting.model_fields)}"
            )
