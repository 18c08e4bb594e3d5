"""One run's knobs, validated. Flat scalars, so that a field is a flag, a column and a TOML key."""

import hashlib
import json
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from baton import algorithms, datasets, rates
from baton.errors import BadInput, nearest
from baton.failures import FAILURES, POLICIES, failing, policy
from baton.fields import Fields
from baton.models import MODELS
from baton.names import canonical, shared, split
from baton.partitions import PARTITIONS
from baton.schedules import SCHEDULES
from baton.usercode import own

FORMAT = 1  # part of every run_id: raised when the same setting would give other numbers

ROOMS: dict[str, dict[str, Any]] = {
    "dataset": datasets.LOADERS,
    "partition": PARTITIONS,
    "model": MODELS,
    "algorithm": algorithms.ALGORITHMS,
    "schedule": SCHEDULES,
    "lr_schedule": rates.RATES,
    "failures": FAILURES,
    "on_failure": POLICIES,
}
FROM_DATASET = ("partition", "model", "clients", "dtype")  # fields whose default the data set gives
ADDED = ("momentum", "lr_schedule", "failures", "on_failure")  # written unless at their defaults: old ids stay
APART = ("dataset", "partition", "lr", "lr_schedule", "clip", "weight_decay", "momentum", "seed")  # from lane to lane


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
    def _fill(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Defaults that depend on the data set, then every spec in its one spelling."""
        given = {"dataset": "digits", "algorithm": "sequential", "schedule": "shuffled", **values}
        if isinstance(given["dataset"], str):
            source = datasets.source(given["dataset"])
            given = {**{field: getattr(source, field) for field in FROM_DATASET}, **given}
        for field, known in ROOMS.items():
            if isinstance(given.get(field), str):
                given[field] = canonical(field, given[field], known)
        rounds = given.get("rounds", cls.model_fields["rounds"].default)
        if isinstance(given.get("lr_schedule"), str) and type(rounds) is int:
            given["lr_schedule"] = rates.filled(given["lr_schedule"], rounds)
        given.setdefault("participants", given.get("clients"))
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.participants > self.clients:
            raise BadInput(f"participants: {self.participants} is more than clients = {self.clients}; S <= M is right")
        if who := [m for m in failing(self.failures).who if m >= self.clients]:
            raise BadInput(f"failures: {self.failures} has client {who[0]}; 0 to {self.clients - 1} is right")
        policy(self.on_failure)  # these check their own options
        self.factor(0)
        algorithms.build(self.algorithm)
        return self

    def factor(self, round: int) -> float:
        """What the learning rate is multiplied by in a round, from 0."""
        return rates.build(self.lr_schedule)(round)

    @cached_property
    def run_id(self) -> str:
        """Names the run in the store: a hash of every field."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Every field, one spelling: the same setting gives the same bytes."""
        fields = type(self).model_fields
        kept = {f: x for f, x in self.model_dump().items() if f not in ADDED or x != fields[f].default}
        return _written({"format": FORMAT, **kept})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The setting that to_json wrote."""
        values = _read(text)
        found = values.pop("format", None)
        if found != FORMAT:
            raise BadInput(
                f"setting.json: format {found} was written by another version; this one reads format {FORMAT}"
            )
        return cls(**values)

    @property
    def kin(self) -> str:
        """What a run has in common with its own beginning: every field but the rounds."""
        return kin(self.to_json())[0]

    @cached_property
    def shape_key(self) -> str:
        """What must be equal for two runs to be lanes of one program."""
        fields = self.model_dump(exclude=set(APART))
        fields["algorithm"] = shared("algorithm", self.algorithm, algorithms.ALGORITHMS)
        return json.dumps({"data": datasets.shape(self.dataset), **fields}, sort_keys=True)

    @property
    def theirs(self) -> bool:
        """Whether any of it is a user's own code."""
        return any(own(split(field, getattr(self, field), known)[0]) for field, known in ROOMS.items())

    @property
    def steps(self) -> int:
        """SGD steps in the run: R S K."""
        return self.rounds * self.participants * self.local_steps


def kin(text: str) -> tuple[str, int]:
    """What to_json wrote, without the rounds; and the rounds."""
    values = _read(text)
    rounds: int = values.pop("rounds", 0)
    return _written(values), rounds


def _read(text: str) -> dict[str, Any]:
    """The fields in a file; none, where it is not a setting's."""
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _written(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=1, sort_keys=True) + "\n"


def _one_line(error: ValidationError) -> str:
    """pydantic's report as one line: field, value, what would be right."""
    first = error.errors()[0]
    if first["type"] == "value_error":  # a BadInput from one of the checks above
        return str(first["ctx"]["error"])
    field, value = str(first["loc"][0]) if first["loc"] else "setting", first["input"]
    if first["type"] == "extra_forbidden":
        return f"{field}: no such setting; {nearest(field, Setting.model_fields)}"
    return f"{field}: {value!r} is not right: {first['msg'][0].lower()}{first['msg'][1:]}"
