"""One flag a field of a setting, for every command that takes one; the paper's letters are the short ones."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import complete
from baton.errors import BadInput
from baton.fields import FIELDS, Field

if TYPE_CHECKING:
    from baton.ledger import Rates
    from baton.setting import Setting


WIDE = 20  # characters of the longest list of choices that stands in --help beside its flag


def _option(name: str, field: Field, hidden: bool = False) -> Any:
    """Not given, it is None: the setting knows its own defaults."""
    words = [f"--{name.replace('_', '-')}"] + [f"-{field.letter}"] * bool(field.letter)
    listed = "|".join(field.choices)
    long = len(listed) > WIDE
    metavar = listed if listed and not long else "NAME" if field.kind is str else "N"
    help = f"{field.help}{': ' + ', '.join(field.choices) if long else ''} [{field.default}]."
    known = complete.of(name)
    return typer.Option(*words, help=help, metavar=metavar, show_default=False, hidden=hidden, autocompletion=known)


FLAGS = {name: Annotated[field.kind | None, _option(name, field)] for name, field in FIELDS.items()}

_NOISE = Field(float, (), "0", "Noise on smashed data, in split learning", "")
SmashNoise = Annotated[float | None, _option("smash_noise", _NOISE)]

ClientFlops = Annotated[float, typer.Option(metavar="FLOP/s", help="Of a client, for the modelled seconds.")]
ServerFlops = Annotated[float, typer.Option(metavar="FLOP/s", help="Of the server, for each client it works with.")]
Up = Annotated[float, typer.Option(metavar="MBIT/S", help="A client's link to the server, or to the next client.")]
Down = Annotated[float, typer.Option(metavar="MBIT/S", help="The way back.")]
Latency = Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="Of every message.")]


def of_a_setting(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a flag for every field of a setting; it is given them by name in one dict, `fields`.

    A flag that the command has of its own takes the place of the field's.
    """
    return listing_no(*())(command)


def listing_no(*unlisted: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same, but --help has nothing of these fields: the command refuses them, or they change nothing in it."""

    def made(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**words: Any) -> None:
            command({name: words.pop(name) if name in hints else None for name in FLAGS}, **words)

        hidden = {n: Annotated[FIELDS[n].kind | None, _option(n, FIELDS[n], hidden=True)] for n in unlisted}
        hints = {n: hint for n, hint in (FLAGS | hidden).items() if n not in signature(command).parameters}
        own = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in list(signature(command).parameters.values())[1:]]
        fields = [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=hint) for n, hint in hints.items()]
        called.__signature__ = Signature([*fields, *own])  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in (*fields, *own)}
        return called

    return made


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """The fields of a setting that were given on the command line; flags: a command's arguments by name."""
    from baton.names import extended
    from baton.setting import ROOMS

    found = {name: flags[name] for name in FLAGS if flags[name] is not None}
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
