"""A site's own policy: what it takes part in, and what it tells."""

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from baton import algorithms, regular
from baton.deploy.fits import in_files
from baton.deploy.orders import fewest_rows
from baton.errors import BadInput, nearest
from baton.models import MODELS
from baton.names import bind, inner, option, options
from baton.setting import Setting

LARGEST = 1 << 16  # bytes of a policy's file
SPLIT = ("ssl", "splitfed")  # methods that show single samples: accepted only where they are named
WHOLE = [name for name in algorithms.ALGORITHMS if name not in (*SPLIT, "alone", "pooled")]
WRITTEN = """\
# What this site takes part in, and what it tells. The site's own: nobody else can change it.
# A line that is left out is as it is here.

algorithms = []      # names that are accepted; empty: all that send whole models. A switch needs both of its methods.
                     # ssl and splitfed have to be named: they show the server a layer's outputs for single samples,
                     # and their labels; the server chooses that layer's weights, so that these can be the rows
models = []          # names that are accepted; empty: all that Baton has
most_steps = 1000    # local steps of one leg
least_samples = 10   # with fewer training samples than this, the site does not take part
least_rows = 16      # a leg rests on at least so many different training rows (steps x batch size)
# sizes = true       # whether the number of samples may be told; false, if left out beside least_noise or most_epsilon
# metrics = true     # whether loss, accuracy and the run's metrics on the site's own samples may be told; the same
noise = 0.0          # Gaussian noise on those numbers, as a share of each
least_noise = 0.0    # runs whose legs have less noise than this (dp = "gaussian:clip=1,noise=...") are refused
most_epsilon = 0.0   # all legs with noise, of all runs, together; what would go beyond is refused. 0: not asked for
delta = 1e-5         # the delta of that epsilon
"""


class No(Exception):
    """The site does not do it; its only word is one of messages.WHYS."""


class Policy(BaseModel):
    """The file's fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    algorithms: list[str] = []
    models: list[str] = []
    most_steps: int = Field(1000, ge=1)
    least_samples: int = Field(10, ge=0)
    least_rows: int = Field(16, ge=1)
    sizes: bool | None = None  # None: as `bounded` says
    metrics: bool | None = None
    noise: float = Field(0.0, ge=0.0, le=1.0)
    least_noise: float = Field(0.0, ge=0.0)
    most_epsilon: float = Field(0.0, ge=0.0)
    delta: float = Field(1e-5, gt=0.0, lt=1.0)

    @property
    def bounded(self) -> bool:
        """Whether every accepted run has noise on its legs."""
        return self.least_noise > 0 or self.most_epsilon > 0

    @property
    def tells_sizes(self) -> bool:
        """Whether numbers of samples are told."""
        return not self.bounded if self.sizes is None else self.sizes

    @property
    def tells_metrics(self) -> bool:
        """Whether what a model costs on the site's samples is told."""
        return not self.bounded if self.metrics is None else self.metrics

    def check(self, setting: Setting, samples: int) -> None:
        """Whether the site takes part in such a run; before that is known, nothing that it names is looked up."""
        if setting.paths:
            raise No("code")
        if not _accepted(setting.algorithm, self.algorithms or WHOLE, algorithms.ALGORITHMS):
            raise No("algorithm")
        methods = [setting.algorithm, *inner("algorithm", setting.algorithm, algorithms.ALGORITHMS).values()]
        if not all(_accepted(each, self.algorithms or WHOLE, algorithms.ALGORITHMS) for each in methods):
            raise No("algorithm")
        if not _accepted(setting.model, self.models, MODELS):
            raise No("model")
        if in_files(setting):
            raise No("files")
        if not self.tells_sizes and (setting.epochs or any(map(_weighs_by_size, methods))):
            raise No("sizes")  # before steps are counted, from which the size could be found
        if steps(setting.local_steps, setting.epochs, setting.batch_size, samples) > self.most_steps:
            raise No("steps")
        if samples < self.least_samples:
            raise No("samples")
        if fewest_rows(setting.local_steps, setting.epochs, setting.batch_size, samples) < self.least_rows:
            raise No("rows")


def _accepted(spec: str, names: list[str], known: dict[str, Any]) -> bool:
    name = spec.partition(":")[0]
    return name in known and (not names or name in names)


def steps(local_steps: int, epochs: int, batch_size: int, samples: int) -> int:
    """Of a leg at a site that holds so many, at most."""
    return epochs * -(-samples // batch_size) if epochs else local_steps


def _weighs_by_size(spec: str) -> bool:
    """Whether an algorithm weighs by samples, or takes as many steps as there are batches."""
    _, make, given = bind("algorithm", spec, algorithms.ALGORITHMS)
    weighting = options(make)["weighting"].default if "weighting" in options(make) else "uniform"
    weighting = given.get("weighting", weighting)
    return weighting == "size" or bool(option("algorithm", spec, algorithms.ALGORITHMS, "passes"))


def read(path: Path) -> Policy:
    """A policy's file, checked; its own line where something is wrong."""
    try:
        table = tomllib.loads(regular.read(path, LARGEST, field="policy").decode())
        found = Policy(**table)
    except FileNotFoundError:
        raise BadInput(f"policy: no file {str(path)!r}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"policy: {path}: not TOML ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else "policy"
        if first["type"] == "extra_forbidden":
            raise BadInput(f"policy: {path}: no field {field!r}; {nearest(field, Policy.model_fields)}") from None
        raise BadInput(f"policy: {path}: {field}: {first['input']!r} is not right: {first['msg']}") from None
    for field, known in (("algorithms", algorithms.ALGORITHMS), ("models", MODELS)):
        for name in getattr(found, field):
            if name not in known:
                raise BadInput(f"policy: {path}: {field}: no {name!r}; {nearest(name, known)}")
    return found
