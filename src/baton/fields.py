"""The fields of a setting, each said once: its checks, its flag and its line in a report are read off here.

Nothing heavy is imported, so that --help answers at once.
"""

from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt


class Told(NamedTuple):
    """What a person is told about a field."""

    help: str
    letter: str = ""  # its short flag
    default: str = ""  # in words, where it is not the same for all settings


class Fields:
    """Flat scalars. The numbers are the paper's letters."""

    dataset: Annotated[str, Told("Data set, e.g. digits or quadratic:zeta=1,delta=0", "d")] = "digits"
    partition: Annotated[str, Told("Who holds which samples, e.g. exdir:C=1,alpha=10", "p", "the data set's")] = "iid"
    model: Annotated[str, Told("Model, e.g. mlp:hidden=64", "m", "the data set's")] = "logistic"
    algorithm: Annotated[str, Told("E.g. sequential or ssl:cut=LAYER; 'baton list' names all", "a")] = "sequential"
    schedule: Annotated[str, Told("Who takes part, in what order: shuffled (the paper's) or fixed")] = "shuffled"
    clients: Annotated[int, Ge(1), Lt(1 << 63), Told("M, all clients", "M", "the data set's")] = 10
    participants: Annotated[int, Ge(1), Lt(1 << 63), Told("S, clients of one round", "S", "all")] = 10
    local_steps: Annotated[int, Ge(0), Lt(1 << 63), Told("K, SGD steps of one leg", "K")] = 5
    epochs: Annotated[int, Ge(0), Le(10**6), Told("E, a leg's passes over its client's samples, in place of K")] = 0
    rounds: Annotated[int, Ge(1), Le(10**9), Told("R, training rounds", "R")] = 100
    batch_size: Annotated[int, Ge(1), Lt(1 << 63), Told("b, samples of one step", "b")] = 20
    sampling: Annotated[Literal["shuffle", "replacement", "balanced"], Told("How a leg draws its batches")] = "shuffle"
    lr: Annotated[float, Gt(0), Told("eta, the learning rate")] = 0.1
    clip: Annotated[float, Ge(0), Told("Largest gradient norm; 0 = no clipping")] = 0.0
    weight_decay: Annotated[float, Ge(0), Told("Added to the gradient after clipping")] = 0.0
    momentum: Annotated[float, Ge(0), Lt(1), Told("Of a leg's steps; starts at 0 in each leg")] = 0.0
    lr_schedule: Annotated[str, Told("The learning rate over rounds, e.g. cosine or step:every=50")] = "constant"
    failures: Annotated[str, Told("Legs that do not come back, e.g. share:p=0.1 or clients:who=3+7")] = "none"
    on_failure: Annotated[str, Told("What is done then: skip, retry:times=2, reroute:times=2 or abort")] = "skip"
    dp: Annotated[str, Told("Clip and noise on a leg's displacement: gaussian:clip=1,noise=0.8")] = "none"
    validation: Annotated[float, Ge(0), Lt(1), Told("Share of each client's samples held back, to choose by")] = 0.0
    seed: Annotated[int, Ge(0), Lt(1 << 63), Told("Of every draw in the run")] = 1
    eval_every: Annotated[int, Ge(1), Lt(1 << 63), Told("Rounds between evaluations")] = 4
    metrics: Annotated[str, Told("Measured too, at every site: e.g. auc,f1; or none", "", "the data set's")] = ""
    dtype: Annotated[Literal["float32", "float64"], Told("Of parameters and arithmetic", "", "the data set's")] = (
        "float32"
    )


class Field(NamedTuple):
    """A field as flags and pages show it."""

    kind: type  # str, int or float
    choices: tuple[str, ...]  # none: any that its own checks let pass
    default: str
    help: str
    letter: str


def _field(name: str, hint: Any) -> Field:
    kind, *about = get_args(hint)
    told = next(each for each in about if isinstance(each, Told))
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    default = getattr(Fields, name)
    shown = told.default or (f"{default:g}" if isinstance(default, float) else str(default))
    return Field(str if choices else kind, choices, shown, told.help, told.letter)


FIELDS = {name: _field(name, hint) for name, hint in get_type_hints(Fields, include_extras=True).items()}
