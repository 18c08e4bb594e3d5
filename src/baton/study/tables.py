"""The tables [report] and [tune] of a study file, as types."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from baton.errors import BadInput, nearest
from baton.setting import Setting
from baton.study.fields import known


def _held(holds: Callable[[Any], bool], right: str) -> AfterValidator:
    """A number for which that holds; right: what else is said."""

    def check(x: Any) -> Any:
        if not holds(x):
            raise BadInput(f"{x!r}; {right}")
        return x

    return AfterValidator(check)


def _field(name: str) -> str:
    if name and not known(name):
        raise BadInput(f"no such setting {name!r}; {nearest(name, Setting.model_fields)}")
    return name


def _searched(names: list[str]) -> list[str]:
    if not names:
        raise BadInput("[] searches nothing; ['lr'] is right")
    for name in names:
        if _field(name) in ("", "seed", "rounds"):
            raise BadInput(f"{name!r} cannot be searched; 'lr' or 'clip' is right")
    return names


Name = Annotated[str, AfterValidator(_field)]  # of a field of a setting, or of an option: algorithm.mu
Count = Annotated[int, _held(lambda x: x >= 1, "at least 1 is right")]
Part = Annotated[float, _held(lambda x: 0 <= x < 1, "a part of the evaluations, from 0 to 1, is right")]


class Checked(BaseModel):
    """A table of a study file; a mistake in it is one line."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadInput(self._one_line(error)) from None

    @classmethod
    def _one_line(cls, error: ValidationError) -> str:
        """pydantic's report: table, key, value, what would be right."""
        first, table = error.errors()[0], f"[{cls.__name__.lower()}]"
        key, value = str(first["loc"][0]), first["input"]
        if first["type"] == "extra_forbidden":
            return f"{table}: no key {key!r}; {nearest(key, cls.model_fields)}"
        if first["type"] == "value_error":  # a BadInput from one of the checks above
            return f"{table} {key}: {first['ctx']['error']}"
        if first["type"] == "literal_error":
            return f"{table} {key}: {value!r}; {first['ctx']['expected'].replace(chr(39), '')} is right"
        inside = len(first["loc"]) > 1  # a list holds it
        kind = "str" if inside else type(cls.model_fields[key].get_default(call_default_factory=True)).__name__
        return f"{table} {key}: {value!r} is not a {kind}"


class Report(Checked):
    """[report]: what is shown of a study, and how."""

    metric: str = Field(default="test_accuracy", description="what is measured")
    also: list[str] = Field(default=[], description="further metrics, a row of panels each")
    best: Literal["max", "min"] = Field(
        default="max", description="which end of the metric is better; left out: the metric's own"
    )
    over: Name = Field(default="lr", description="the field whose best value is chosen for each curve")
    among: list[Any] = Field(default=[], description="values of that field to choose from; empty: all")
    lines: Name = Field(default="algorithm", description="one curve, one table column, a value")
    figures: Name = Field(default="", description="one figure a value of this field")
    columns: Count = Field(default=3, description="panels in a row")
    across: list[Name] = Field(default=[], description="fields that are columns of the paper's form of the table")
    down: list[Name] = Field(default=[], description="fields that are its rows")
    last: Count = Field(default=10, description="evaluations averaged for the table")
    smooth: Part = Field(default=0.0, description="moving average over this part of the evaluations, in figures only")
    log: bool = Field(default=False, description="whether the metric's axis is logarithmic")
    margin: float = Field(default=0.0, description="a result better by more than this is set in bold")
    spread: Literal["interval", "paper"] = Field(
        default="interval", description="95 % interval over seeds; or, as in the paper, one deviation over all"
    )
    shade: Literal["std", "minmax"] = Field(default="std", description="around a curve, over seeds")
    target: float | None = Field(default=None, description="a value of the metric; what it takes to come there")
    hops: bool = Field(default=False, description="whether sites are shown after every hand-over of some rounds")
    paper: str = Field(default="", description="the paper's table to set these results beside")

    @property
    def sign(self) -> int:
        """1 where more of the metric is better, -1 where less is."""
        return 1 if self.best == "max" else -1


class Tune(Checked):
    """[tune]: how the best value of some fields is searched. Method and seed are checked where they are used."""

    method: str = Field(default="simple", description="a name of baton.search.rules.METHODS")
    over: Annotated[list[str], AfterValidator(_searched)] = Field(default=["lr"], description="the fields searched")
    on: Literal["validation", "test"] = Field(default="validation", description="samples to choose by")
    by: Literal["metric", "loss"] = Field(
        default="metric", description="what to choose by: the report's metric, or the loss"
    )
    share: Annotated[float, _held(lambda x: 0 < x < 1, "a part of the samples, above 0, below 1, is right")] = Field(
        default=0.2, description="of each client's samples held back in the search"
    )
    extend: bool = Field(
        default=True, description="whether rates beyond the grid are tried where the best one is its last"
    )
    seed: int = Field(default=-1, description="searched with this seed; -1: the study's first")
    short: Count = Field(default=1000, description="rounds of the coarse search")
    within: Annotated[float, _held(lambda x: x >= 0, "0 or more is right")] = Field(
        default=3.0, description="candidates: at most this far from the best, in the metric's unit"
    )
    last: Count = Field(default=10, description="evaluations averaged in the coarse search")
