"""A federation's plan: who takes part, on what data, in which run, and what is done when a site is lost."""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from baton import metrics, regular
from baton.deploy.fits import fits
from baton.deploy.like import like
from baton.deploy.measure import asked
from baton.deploy.rules import Rules
from baton.errors import BadInput, nearest
from baton.names import path
from baton.setting import ROOMS, Setting
from baton.store import files

ADMIN = "admin@baton.example"
LARGEST = 1 << 20  # bytes of a plan
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
ORG = re.compile(r"\w{1,63}", re.ASCII)
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
TABLES: dict[str, dict[str, type]] = {
    "federation": {"name": str, "server": str, "port": int},
    "data": {"features": list, "label": str, "classes": list, "mean": list, "scale": list},
    "run": {},
    "lost": {"then": str, "wait": float},
    "times": {"leg": float, "ping": float, "gather": float},
    "checks": {"norm": float},
}
LATER = "later"  # what [lost] then may say beside the policies of a simulation


class Member(NamedTuple):
    """A site."""

    name: str
    org: str


class Plan(NamedTuple):
    """All that the server needs to know."""

    name: str
    server: str  # the name that sites reach it by
    port: int
    sites: tuple[Member, ...]
    data: dict[str, Any] | None  # what sites' rows look like; None: as the run's data set has them
    setting: Setting  # of its run, or of the first of them
    leg: float = 600.0
    ping: float = 5.0
    gather: float = 60.0  # seconds that sites are waited for before the run begins without them
    wait: float = 0.0
    later: bool = False
    norm: float = 0.0
    then: tuple[Setting, ...] = ()  # runs after the first: the same one by other algorithms
    file: str = ""  # a digest of the file it was read from

    @property
    def runs(self) -> tuple[Setting, ...]:
        """One after another."""
        return self.setting, *self.then

    def rules(self) -> Rules:
        """For its coordinator."""
        names = tuple(site.name for site in self.sites)
        return Rules(names, self.leg, self.ping, self.wait, self.later, self.norm)

    def org(self, name: str) -> str:
        """Whose site it is."""
        return next(site.org for site in self.sites if site.name == name)

    def save(self, folder: Path) -> None:
        """As plan.json."""
        folder.mkdir(parents=True, exist_ok=True)
        table = {**self._asdict(), "setting": self.setting.to_json(), "sites": [list(site) for site in self.sites]}
        table["then"] = [each.to_json() for each in self.then]
        files.write_json(folder / "plan.json", table, keep=True)


def load(folder: Path) -> Plan:
    """What save wrote."""
    try:
        table = files.read_json(folder / "plan.json")
    except OSError:
        raise BadInput(f"deploy: no plan in {str(folder)!r}; 'baton deploy plan' makes one") from None
    setting, *then = (_stored(text) for text in (table.pop("setting"), *table.pop("then", [])))
    sites = tuple(Member(*each) for each in table.pop("sites"))
    return Plan(**table, setting=setting, sites=sites, then=tuple(then))


def _stored(text: str) -> Setting:
    return Setting(**Setting.from_json(text).model_dump())


def read(path: Path, run: Setting | None = None) -> Plan:
    """A plan's TOML file, each thing checked in one line; run: a simulated run whose setting is taken."""
    table = _table(path)
    try:
        return parse(table, run)._replace(file=_digest(table))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def check_unchanged(path: Path, planned: Plan) -> None:
    """Raise BadInput if a plan's file says something else than when it was planned."""
    if _digest(_table(path)) != planned.file:
        raise BadInput(f"plan: {path} was changed since 'baton deploy plan'; plan it again, or take the change back")


def name_of(path: Path) -> str:
    """Return the name of a plan's federation; nothing else of the file is looked at."""
    head = _table(path).get("federation")
    name = head.get("name") if isinstance(head, dict) else None
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadInput(f"{path}: federation: name: {name!r}; a letter, then letters, digits, - and _, is right")
    return name


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(regular.read(path, LARGEST, field="plan").decode())
    except FileNotFoundError:
        raise BadInput(f"plan: no file {str(path)!r}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"plan: {path}: not TOML ({error})") from None


def _digest(table: dict[str, Any]) -> str:
    """Of what a file says, however it is written."""
    return hashlib.sha256(json.dumps(table, sort_keys=True, default=str).encode()).hexdigest()


def parse(table: dict[str, Any], run: Setting | None = None) -> Plan:
    """The same from its tables."""
    for key in table:
        if key not in (*TABLES, "sites"):
            raise BadInput(f"plan: no table {key!r}; {nearest(key, (*TABLES, 'sites'))}")
    for name, known in TABLES.items():
        _checked(name, table.get(name, {}), known)
    head = table.get("federation", {})
    for key in ("name", "server"):
        if key not in head:
            raise BadInput(f"federation: {key} is missing")
    if not NAME.fullmatch(head["name"]):
        raise BadInput(f"federation: name: {head['name']!r}; a letter, then letters, digits, - and _, is right")
    if not HOST.fullmatch(head["server"]):
        raise BadInput(f"federation: server: {head['server']!r} is no name of a machine")
    port = head.get("port", 8002)
    if not 1 <= port <= 65535:
        raise BadInput(f"federation: port: {port}; 1 to 65535 is right")
    sites = _sites(table.get("sites"), head["server"])
    data = _data(table["data"]) if "data" in table else None
    times = {**table.get("times", {}), **table.get("checks", {})}
    for key, value in times.items():
        if not 0 <= value < 1e7 or (not value and key != "norm"):
            raise BadInput(f"times: {key}: {value:g}; a number of seconds above 0 is right")
    seconds: dict[str, Any] = {key: float(value) for key, value in times.items()}
    lost = table.get("lost", {})
    later, then = lost.get("then") == LATER, lost.get("then", "skip")
    if lost.get("wait", 0) < 0:
        raise BadInput(f"lost: wait: {lost['wait']:g}; seconds, 0 or more, is right")
    fields = table.get("run", {})
    specs = fields.get("algorithm") if isinstance(fields.get("algorithm"), list) else None
    if specs is not None and (not specs or len(set(map(str, specs))) < len(specs)):
        raise BadInput(f"run: algorithm: {specs!r}; one, or a list of different ones, is right")
    setting, *others = (
        _setting(each, run, sites, data, head["name"], "skip" if later else then)
        for each in ([fields] if specs is None else [{**fields, "algorithm": spec} for spec in specs])
    )
    return Plan(
        head["name"],
        head["server"],
        port,
        sites,
        data,
        setting,
        **seconds,
        wait=float(lost.get("wait", 0.0)),
        later=later,
        then=tuple(others),
    )


def _checked(name: str, table: Any, known: dict[str, type]) -> None:
    if not isinstance(table, dict):
        raise BadInput(f"plan: {name} is no table")
    for key, value in table.items() if known else ():
        if key not in known:
            raise BadInput(f"{name}: no {key!r}; {nearest(key, known)}")
        kind = known[key]
        right = type(value) is kind or (kind is float and type(value) is int)
        if not right:
            raise BadInput(f"{name}: {key}: {value!r} is not right: {kind.__name__} is")


def _sites(found: Any, server: str) -> tuple[Member, ...]:
    if not isinstance(found, list) or not found:
        raise BadInput("sites: none; [[sites]] with a name and an org for each is right")
    members = []
    for each in found:
        if not isinstance(each, dict) or not set(each) <= {"name", "org"} or not isinstance(each.get("name"), str):
            raise BadInput(f"sites: {each!r}; name and org are right")
        name, org = each["name"], each.get("org", each["name"].replace("-", "_"))
        if not NAME.fullmatch(name):
            raise BadInput(f"sites: {name!r}; a letter, then letters, digits, - and _, is right")
        if not isinstance(org, str) or not ORG.fullmatch(org):
            raise BadInput(f"sites: org: {org!r}; letters, digits and _ are right")
        members.append(Member(name, org))
    names = [member.name for member in members]
    for name in names:
        if names.count(name) > 1 or name == server:
            raise BadInput(f"sites: {name} is there twice; every site and the server have names of their own")
    return tuple(members)


def _data(table: dict[str, Any]) -> dict[str, Any]:
    for key in ("features", "label", "classes"):
        if key not in table:
            raise BadInput(f"data: {key} is missing")
    for key in ("features", "classes"):
        words = table[key]
        if not words or not all(isinstance(word, str) for word in words) or len(set(words)) != len(words):
            raise BadInput(f"data: {key}: {words!r}; a list of different words is right")
    if len(table["classes"]) < 2:
        raise BadInput(f"data: classes: {table['classes']!r}; at least two are right")
    count = len(table["features"])
    for key in ("mean", "scale"):
        numbers = table.get(key, [])
        if key in table and (len(numbers) != count or not all(type(x) in (int, float) for x in numbers)):
            raise BadInput(f"data: {key}: {len(numbers)} of them; a number for each of the {count} features is right")
    if any(not x > 0 for x in table.get("scale", [])):
        raise BadInput("data: scale: numbers above 0 are right")
    return table


def _setting(
    fields: dict[str, Any], run: Setting | None, sites: tuple[Member, ...], data: Any, name: str, then: str
) -> Setting:
    """The run, over these sites; its legs are lost as they are."""
    for key in ("failures", "on_failure", "clients"):
        if key in fields:
            raise BadInput(f"run: {key} is not for here; [lost] and [[sites]] say it")
    given = {**(run.model_dump() if run else {}), **fields}
    if run is not None and run.clients != len(sites):
        raise BadInput(f"sites: {len(sites)} of them, and the run has clients = {run.clients}; as many is right")
    if data is not None:
        digest = hashlib.sha256(json.dumps([name, data], sort_keys=True).encode()).hexdigest()[:8]
        counts = f"features={len(data['features'])},classes={len(data['classes'])}"
        given |= {"dataset": f"sites:of={name}-{digest},{counts}", "partition": "natural"}
    elif "dataset" not in given:
        raise BadInput("data: missing; what the sites' rows look like, or a dataset in [run], is right")
    given |= {"clients": len(sites), "on_failure": then}
    if own := _own_code(given):  # asked of the names: nothing of it is imported
        raise BadInput(f"run: {own} is code of your own; sites run Baton's own alone")
    fits(Setting(**{**given, "failures": "none"}))
    setting = Setting(**{**given, "failures": "real"})
    asked(setting, like(setting))  # metrics that fit
    return setting


def _own_code(given: Mapping[str, Any]) -> str:
    """Return the first name of a user's own code; empty where there is none."""
    named = (path(given[field], known) for field, known in ROOMS.items() if isinstance(given.get(field), str))
    wanted = given.get("metrics", "")
    return next(filter(None, (*named, *(metrics.paths(wanted) if isinstance(wanted, str) else ()))), "")
