"""One run's knobs, validated. Flat scalars, so that a field is a flag, a column and a TOML key."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from baton import algorithms, datasets, metrics, privacy, rates, schedules
from baton.errors import BadInput, nearest
from baton.failures import FAILURES, POLICIES, failing, policy
from baton.fields import Fields
from baton.models import MODELS
from baton.names import canonical, path, shared
from baton.partitions import PARTITIONS
from baton.schedules import SCHEDULES
from baton.usercode import fingerprints, named

# Part of every run_id: raised when the same setting would give other numbers, so that no run of before is mistaken for
# one of now. Those of an earlier format are listed and shown as such, and never reused, compared or reported.
FORMAT = 3
STORED = {"stored": True}  # tells the checks that nothing may be looked up

ROOMS: dict[str, dict[str, Any]] = {
    "dataset": datasets.LOADERS,
    "partition": PARTITIONS,
    "model": MODELS,
    "algorithm": algorithms.ALGORITHMS,
    "schedule": SCHEDULES,
    "lr_schedule": rates.RATES,
    "failures": FAILURES,
    "on_failure": POLICIES,
    "dp": privacy.DP,
}
FROM_DATASET = ("partition", "model", "clients", "dtype")  # fields whose default the data set gives
APART = ("dataset", "partition", "lr", "lr_schedule", "clip", "weight_decay", "momentum", "seed")  # from lane to lane


class Earlier(BadInput):
    """A stored run's setting is of an earlier format."""


class MadeOf(NamedTuple):
    """What a setting's names stand for, where the names alone do not say it."""

    data: str = ""  # of the samples
    code: dict[str, str] = {}  # noqa: RUF012 module -> of its source, for each module of a user's own


class Setting(Fields, BaseModel):
    """One run. Fields left out take the data set's defaults; the numbers are the paper's letters."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadInput(_one_line(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Defaults that depend on the data set, then every spec in its one spelling."""
        if info.context is STORED:
            return values
        given = {"dataset": "digits", "algorithm": "sequential", "schedule": "shuffled", **values}
        given |= {field: _named(field, x) for field in ROOMS if (x := given.get(field)) is not None}
        if isinstance(given["dataset"], str):
            given["dataset"] = datasets.spelled(given["dataset"])
            filled = {field: datasets.default(given["dataset"], field) for field in FROM_DATASET if field not in given}
            given = {**filled, **given}
        for field, known in ROOMS.items():
            if isinstance(given.get(field), str):
                given[field] = canonical(field, given[field], known)
        if isinstance(given.get("metrics"), str):
            given["metrics"] = metrics.canonical(given["metrics"])
        rounds = given.get("rounds", cls.model_fields["rounds"].default)
        if isinstance(given.get("lr_schedule"), str) and type(rounds) is int:
            given["lr_schedule"] = rates.filled(given["lr_schedule"], rounds)
        if isinstance(given.get("algorithm"), str) and type(rounds) is int:
            given["algorithm"] = algorithms.filled(given["algorithm"], rounds)
        given.setdefault("participants", given.get("clients"))
        if given.get("epochs"):
            given.setdefault("local_steps", 0)  # each leg has its own: nothing to give
        return given

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        if self.participants > self.clients:
            raise BadInput(f"participants: {self.participants} is more than clients = {self.clients}; S <= M is right")
        if bool(self.local_steps) == bool(self.epochs):
            both = f"epochs: {self.epochs} and local_steps: {self.local_steps}" if self.epochs else "local_steps: 0"
            raise BadInput(
                f"{both}; K steps a leg (local_steps, 1 or more) or E passes over its samples (epochs) is right"
            )
        if info.context is STORED:
            return self
        if who := [m for m in failing(self.failures).who if m >= self.clients]:
            raise BadInput(f"failures: {self.failures} has client {who[0]}; 0 to {self.clients - 1} is right")
        policy(self.on_failure)  # these check their own options
        self.factor(0)
        _fits(self, algorithms.build(self.algorithm))
        return self

    def replace(self, **changes: Any) -> Self:
        """Return the setting with some fields changed, checked as a new one is; BadInput names what is not right."""
        return type(self)(**{**self.model_dump(), **changes})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, or what `replace` returns: pydantic's own checks nothing that is changed."""
        return self.replace(**update) if update else super().model_copy(deep=deep)

    def factor(self, round: int) -> float:
        """What the learning rate is multiplied by in a round, from 0."""
        return rates.build(self.lr_schedule)(round)

    @cached_property
    def made_of(self) -> MadeOf:
        """What the names in it stand for: the samples, which may have to be loaded, and a user's own code."""
        paths = self.paths
        return MadeOf(datasets.content(self.dataset, self.clients), fingerprints(paths) if paths else {})

    def stored_as(self, made_of: MadeOf) -> Self:
        """The same setting, made of this: for looking at runs whose data or code is not here."""
        made = self.__copy__()
        made.__dict__["made_of"] = made_of
        return made

    def __copy__(self) -> Self:
        made = super().__copy__()
        for name in made.__dict__.keys() - type(self).model_fields.keys():  # worked out from fields that may change now
            del made.__dict__[name]
        return made

    @cached_property
    def run_id(self) -> str:
        """Names the run in the store: a hash of every field, and of what the run is made of."""
        return _hash(self.to_json()) if any(self.made_of) else self.key

    @cached_property
    def key(self) -> str:
        """A hash of the fields alone, for which nothing is loaded; runs made of other things may have the same."""
        return _hash(_written({"format": FORMAT, **self.model_dump()}))

    def to_json(self) -> str:
        """Every field, one spelling, and what the run is made of: the same run gives the same bytes."""
        made_of = {part: x for part, x in self.made_of._asdict().items() if x}
        head = {"format": FORMAT, **({"made_of": made_of} if made_of else {})}
        return _written({**head, **self.model_dump()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The setting that to_json wrote. Nothing is looked up, imported or loaded: it may lie in anybody's store."""
        try:
            return cls._stored(_read(text))
        except ValidationError as error:
            raise BadInput(f"setting.json: {_one_line(error)}") from None
        except (RecursionError, OverflowError, UnicodeError) as error:
            raise BadInput(f"setting.json: no setting's values ({type(error).__name__})") from None

    @classmethod
    def _stored(cls, values: dict[str, Any]) -> Self:
        found = values.pop("format", None)
        if _is_earlier(found):
            raise Earlier(f"setting.json: format {found} is of an earlier version of Baton; train the run again")
        if type(found) is not int or found != FORMAT:
            raise BadInput(f"setting.json: format: got {_short(found)}; expected {FORMAT}")
        made_of = _made_of(values.pop("made_of")) if "made_of" in values else MadeOf()
        for field in values:
            if field not in cls.model_fields:
                raise BadInput(f"setting.json: {_short(field)}: no such setting; {nearest(field, cls.model_fields)}")
        "".join(x for x in values.values() if isinstance(x, str)).encode()  # what cannot be printed is refused below
        for field in cls.model_fields:
            if field not in values:
                raise BadInput(f"setting.json: {field} is missing; delete the run to train it again")
        made = cls.__new__(cls)
        cls.__pydantic_validator__.validate_python(values, self_instance=made, context=STORED)
        return made.stored_as(made_of)

    @property
    def kin(self) -> str:
        """What a run has in common with its own beginning: all but the rounds."""
        return kin(self.to_json())[0]

    @cached_property
    def shape_key(self) -> str:
        """What must be equal for two runs to be lanes of one program."""
        fields = self.model_dump(exclude=set(APART))
        fields["algorithm"] = shared("algorithm", self.algorithm, algorithms.ALGORITHMS)
        fields["dp"] = shared("dp", self.dp, privacy.DP)
        if not self.theirs and algorithms.build(self.algorithm).elastic:
            fields["legs"] = "torch"  # no company for lanes whose legs C has: their bits would change
        return json.dumps({"data": datasets.shape(self.dataset), **fields}, sort_keys=True)

    @property
    def theirs(self) -> bool:
        """Whether any of it is a user's own code."""
        return bool(self.paths)

    @property
    def paths(self) -> list[str]:
        """The `package.module:factory` names in it; nothing is imported."""
        own = [name for field, known in ROOMS.items() if (name := path(getattr(self, field), known))]
        return own + metrics.paths(self.metrics)

    @property
    def length(self) -> str:
        """How long a leg is, for people: `K = 5`, or `E = 2`."""
        return f"E = {self.epochs}" if self.epochs else f"K = {self.local_steps}"


def checked(setting: Setting) -> Setting:
    """Return a setting that was made past its own checks, as model_construct does; BadInput where it is not right."""
    now = Setting(**setting.model_dump())
    return setting if now == setting else now  # its own, which may know what it was made of


def changed(setting: Setting, **fields: Any) -> Setting:
    """Return a part of a run as a setting, such as one leg of it, unchecked: it is trained by, and never stored."""
    return BaseModel.model_copy(setting, update=fields)


def _fits(setting: Setting, algorithm: algorithms.Algorithm) -> None:
    """Refuse what an algorithm cannot have beside it."""
    if setting.epochs and algorithm.split and algorithm.split.passes:
        what = f"epochs: {setting.epochs}, and {setting.algorithm} has passes={algorithm.split.passes}"
        raise BadInput(f"{what}; one of them is right")
    if not algorithm.sends and policy(setting.on_failure).elsewhere:
        what = f"on_failure: {setting.on_failure}; {algorithms.called(setting.algorithm)} sends nothing elsewhere"
        raise BadInput(f"{what}: skip, retry or abort is right")
    if algorithm.pools and setting.failures != "none":
        what = f"failures: {setting.failures}; {algorithms.called(setting.algorithm)} has no legs that could be lost"
        raise BadInput(f"{what}: none is right")
    if algorithm.once and schedules.build(setting.schedule).declared.repeats:
        what = f"schedule: got {setting.schedule!r}, which may draw a client twice in a round"
        raise BadInput(f"{what}; expected one that does not, as {setting.algorithm} keeps one leg a round at a client")
    privacy.refuse(setting.dp, algorithm, algorithms.called(setting.algorithm))


def _named(field: str, value: Any) -> Any:
    """A name, also of what was passed itself: arrays, a function, a module. What is neither is refused by its field."""
    if isinstance(value, datasets.Data):
        return value.spec if field == "dataset" else value
    if isinstance(value, str) or not (callable(value) or hasattr(value, "state_dict")):
        return value
    known = (name for name, function in ROOMS[field].items() if function is value)
    return next(known, None) or named(field, value)


def kin(text: str) -> tuple[str, int]:
    """What to_json wrote, without the rounds; and the rounds. Of what is no setting's, nobody's and 0."""
    values = _read(text)
    rounds = values.pop("rounds", 0)
    try:
        return _written(values), rounds if type(rounds) is int else 0
    except RecursionError:
        return "", 0


def _read(text: str) -> dict[str, Any]:
    """The fields in a file; none, where it is not a setting's."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def is_earlier(text: str) -> bool:
    """Return whether an earlier version of Baton wrote this setting."""
    return _is_earlier(_read(text).get("format"))


def _is_earlier(found: Any) -> bool:
    return type(found) is int and 1 <= found < FORMAT


def _made_of(found: Any) -> MadeOf:
    """What to_json wrote of it."""
    parts = found if isinstance(found, dict) else {}
    data, code = parts.get("data", ""), parts.get("code", {})
    names = [data, *code, *code.values()] if isinstance(code, dict) else [None]
    if not parts or not all(parts.values()) or parts.keys() - {"data", "code"} or set(map(type, names)) != {str}:
        raise BadInput(f"setting.json: made_of: {_short(found)} is not right: data or code or both is")
    return MadeOf(data, code)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(values: dict[str, Any]) -> str:
    """A key a line. Where no value holds others, without `indent`, which is slow: the same bytes."""
    if any(isinstance(x, dict | list) for x in values.values()) or not values:
        return json.dumps(values, indent=1, sort_keys=True) + "\n"
    return "{\n " + json.dumps(values, sort_keys=True, separators=(",\n ", ": "))[1:-1] + "\n}\n"


def _one_line(error: ValidationError) -> str:
    """pydantic's report as one line: field, value, what would be right."""
    first = error.errors()[0]
    if first["type"] == "value_error":  # a BadInput from one of the checks above
        return str(first["ctx"]["error"])
    field, value = str(first["loc"][0]) if first["loc"] else "setting", first["input"]
    if first["type"] == "extra_forbidden":
        return f"{field}: no such setting; {nearest(field, Setting.model_fields)}"
    return f"{field}: {_short(value)} is not right: {first['msg'][0].lower()}{first['msg'][1:]}"


def _short(value: Any) -> str:
    """A value in at most a line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a list of lists without end
        return f"this {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}…"
