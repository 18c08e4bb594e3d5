"""One flag a field of Setting, for every command that takes a setting; the paper's letters are the short ones."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.errors import BadInput

if TYPE_CHECKING:
    from baton.ledger import Rates
    from baton.setting import Setting


def _text(name: str, short: str | None, help: str) -> Any:
    return typer.Option(*filter(None, (f"--{name}", short)), help=help, metavar="NAME", show_default=False)


def _number(name: str, short: str | None, help: str) -> Any:
    return typer.Option(*filter(None, (f"--{name}", short)), help=help, metavar="N", show_default=False)


Dataset = Annotated[str | None, _text("dataset", "-d", "Data set, e.g. digits or quadratic:zeta=1,delta=1/3.")]
Partition = Annotated[str | None, _text("partition", "-p", "Who holds which samples, e.g. exdir:C=1,alpha=10.")]
Model = Annotated[str | None, _text("model", "-m", "Model, e.g. mlp:hidden=64.")]
Algorithm = Annotated[
    str | None, _text("algorithm", "-a", "sequential, parallel, ssl:cut=LAYER or splitfed:cut=LAYER.")
]
SmashNoise = Annotated[float | None, _number("smash-noise", None, "Noise on smashed data, in split learning [0].")]
Schedule = Annotated[str | None, _text("schedule", None, "shuffled (the paper's) or fixed.")]
Clients = Annotated[int | None, _number("clients", "-M", "M, all clients.")]
Participants = Annotated[int | None, _number("participants", "-S", "S, clients of one round [all].")]
LocalSteps = Annotated[int | None, _number("local-steps", "-K", "K, SGD steps of one leg [5].")]
Rounds = Annotated[int | None, _number("rounds", "-R", "R, training rounds [100].")]
BatchSize = Annotated[int | None, _number("batch-size", "-b", "b, samples of one step [20].")]
Sampling = Annotated[str | None, _text("sampling", None, "shuffle or replacement.")]
Lr = Annotated[float | None, _number("lr", None, "eta, the learning rate [0.1].")]
Clip = Annotated[float | None, _number("clip", None, "Largest gradient norm, 0 = no clipping [0].")]
WeightDecay = Annotated[float | None, _number("weight-decay", None, "Added after clipping [0].")]
Seed = Annotated[int | None, _number("seed", None, "Of every draw in the run [1].")]
EvalEvery = Annotated[int | None, _number("eval-every", None, "Rounds between evaluations [4].")]
Dtype = Annotated[str | None, _text("dtype", None, "float32 or float64.")]

ClientFlops = Annotated[float, typer.Option(metavar="FLOP/s", help="Of a client, for the modelled seconds.")]
ServerFlops = Annotated[float, typer.Option(metavar="FLOP/s", help="Of the server, for each client it works with.")]
Up = Annotated[float, typer.Option(metavar="MBIT/S", help="A client's link to the server, or to the next client.")]
Down = Annotated[float, typer.Option(metavar="MBIT/S", help="The way back.")]
Latency = Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="Of every message.")]

FIELDS: dict[str, Any] = {
    "dataset": Dataset,
    "partition": Partition,
    "model": Model,
    "algorithm": Algorithm,
    "schedule": Schedule,
    "clients": Clients,
    "participants": Participants,
    "local_steps": LocalSteps,
    "rounds": Rounds,
    "batch_size": BatchSize,
    "sampling": Sampling,
    "lr": Lr,
    "clip": Clip,
    "weight_decay": WeightDecay,
    "seed": Seed,
    "eval_every": EvalEvery,
    "dtype": Dtype,
}


def of_a_setting(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a flag for every field of a setting; it is given them by name in one dict, `fields`."""

    @wraps(command)
    def called(**words: Any) -> None:
        command({name: words.pop(name) for name in FIELDS}, **words)

    own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in list(signature(command).parameters.values())[1:]]
    fields = [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=hint) for n, hint in FIELDS.items()]
    called.__signature__ = Signature([*fields, *own])  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in (*fields, *own)}
    return called


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """The fields of Setting that were given on the command line; flags: a command's arguments by name."""
    from baton.names import extended
    from baton.setting import ROOMS, Setting

    found = {name: flags[name] for name in Setting.model_fields if flags[name] is not None}
    if flags.get("smash_noise") is not None:  # an option of the split algorithms, which is known by this name
        spec = found.get("algorithm", "sequential")
        found["algorithm"] = extended("algorithm", spec, ROOMS["algorithm"], "smash_noise", flags["smash_noise"])
    return found


def setting(flags: dict[str, Any]) -> "Setting":
    """The setting that a command's arguments describe."""
    from baton.setting import Setting

    return Setting(**given(flags))


def rates(flags: dict[str, Any]) -> "Rates":
    """Those of the time model."""
    from baton.ledger import Rates

    for name in ("client_flops", "server_flops", "up", "down", "latency"):
        x = flags[name]
        if not (x > 0 or (name == "latency" and x == 0)) or x == float("inf"):
            raise BadInput(f"{name}: {x:g}; a finite number above 0 is right")
    up, down = (flags[name] * 1e6 / 8 for name in ("up", "down"))
    return Rates(flags["client_flops"], flags["server_flops"], up, down, flags["latency"])
