"""One run's knobs, validated. Flat scalars, so that a field is a flag, a column and a TOML key."""

import hashlib
import json
import re
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from baton import algorithms, datasets
from baton.errors import BadInput, nearest
from baton.models import MODELS
from baton.names import canonical
from baton.partitions import PARTITIONS
from baton.schedules import SCHEDULES

ROUNDS = re.compile(r'\n "rounds": (\d+),')
FORMAT = 1  # part of every run_id: raised when the same setting would give other numbers

ROOMS: dict[str, dict[str, Any]] = {
    "dataset": datasets.LOADERS,
    "partition": PARTITIONS,
    "model": MODELS,
    "algorithm": algorithms.ALGORITHMS,
    "schedule": SCHEDULES,
}
FROM_DATASET = ("partition", "model", "clients", "dtype")  # fields whose default the data set gives


class Setting(BaseModel):
    """One run. Fields left out take the data set's defaults; the numbers are the paper's letters."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    dataset: str = Field("digits", description="data set, e.g. digits or quadratic:zeta=1,delta=1/3")
    partition: str = Field("iid", description="who holds which samples, e.g. exdir:C=1,alpha=10")
    model: str = Field("logistic", description="model, e.g. mlp:hidden=64")
    algorithm: str = Field("sequential", description="sequential, parallel, ssl:cut=... or splitfed:cut=...")
    schedule: str = Field("shuffled", description="who takes part, in what order")
    clients: int = Field(10, ge=1, description="M, all clients")
    participants: int = Field(10, ge=1, description="S, clients of one round; all M if left out")
    local_steps: int = Field(5, ge=1, description="K, SGD steps of one leg")
    rounds: int = Field(100, ge=1, description="R, training rounds")
    batch_size: int = Field(20, ge=1, description="b, samples of one step")
    sampling: Literal["shuffle", "replacement"] = Field("shuffle", description="how a leg draws its batches")
    lr: float = Field(0.1, gt=0, description="eta, the learning rate")
    clip: float = Field(0.0, ge=0, description="largest gradient norm; 0 = no clipping")
    weight_decay: float = Field(0.0, ge=0, description="added to the gradient after clipping")
    seed: int = Field(1, ge=0, lt=1 << 63, description="of every draw in the run")
    eval_every: int = Field(4, ge=1, description="rounds between evaluations")
    dtype: Literal["float32", "float64"] = Field("float32", description="of parameters and arithmetic")

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
        given.setdefault("participants", given.get("clients"))
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.participants > self.clients:
            raise BadInput(f"participants: {self.participants} is more than clients = {self.clients}; S <= M is right")
        algorithms.build(self.algorithm)  # checks its own options
        return self

    @cached_property
    def run_id(self) -> str:
        """Names the run in the store: a hash of every field."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Every field, one spelling: the same setting gives the same bytes."""
        return json.dumps({"format": FORMAT, **self.model_dump()}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The setting that to_json wrote."""
        values = json.loads(text)
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
        fields = self.model_dump(exclude={"dataset", "partition", "lr", "clip", "weight_decay", "seed"})
        return json.dumps({"data": datasets.shape(self.dataset), **fields}, sort_keys=True)

    @property
    def steps(self) -> int:
        """SGD steps in the run: R S K."""
        return self.rounds * self.participants * self.local_steps


def kin(text: str) -> tuple[str, int]:
    """What to_json wrote, without the rounds; and the rounds."""
    rounds = ROUNDS.search(text)
    return ROUNDS.sub("", text), int(rounds[1]) if rounds else 0


def _one_line(error: ValidationError) -> str:
    """pydantic's report as one line: field, value, what would be right."""
    first = error.errors()[0]
    if first["type"] == "value_error":  # a BadInput from one of the checks above
        return str(first["ctx"]["error"])
    field, value = str(first["loc"][0]) if first["loc"] else "setting", first["input"]
    if first["type"] == "extra_forbidden":
        return f"{field}: no such setting; {nearest(field, Setting.model_fields)}"
    return f"{field}: {value!r} is not right: {first['msg'][0].lower()}{first['msg'][1:]}"
