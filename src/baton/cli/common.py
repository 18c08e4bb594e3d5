"""What the commands share: the app, common options, printing."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton import __version__
from baton.cli import complete
from baton.cli.help import App
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.setting import Setting

MANY = 2000  # runs that take more than a moment

app = App(
    help="Train one model over data that stays at many clients, and compare the ways of passing it around.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="The store of runs.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to train.")]
Devices = Annotated[
    str, typer.Option("--device", metavar="auto|cpu|cuda|cuda:0,1|all", help="Where to train; all: every GPU here.")
]
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="ray|ray:HOST:PORT",
        help="Train on a Ray cluster: the one in RAY_ADDRESS, the one running here, or a new one.",
        show_default=False,
    ),
]
Parts = Annotated[
    int,
    typer.Option("--parts", metavar="N", min=0, help="At least N chunks [default: as suits].", show_default=False),
]
Cores = Annotated[
    int, typer.Option("--cores", metavar="N", min=0, help="Cores a chunk [default: as suits].", show_default=False)
]
ShardOf = Annotated[
    str,
    typer.Option("--shard", metavar="I/N", help="Be the I-th of N commands that share this work.", show_default=False),
]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Memory to use, e.g. 2GB [default: half of what is free].")
]
Precision = Annotated[
    str, typer.Option(metavar="auto|fp32|tf32|bf16", help="Of the operands of matrix products on a GPU.")
]
Checkpoint = Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="Between checkpoints.")]
Again = Annotated[
    bool, typer.Option("--again", help="Train anew what is complete; the old runs are moved aside, not deleted.")
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Go on with what was begun on another machine, or in another way.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Hush = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the answer alone.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Where data sets are looked for first.", show_default=False),
]
Scale = Annotated[
    float, typer.Option("--scale", metavar="X", help="Rounds and seeds times X: the same study, made small to try it.")
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="simple|coarse-fine|halving|paper",
        help="How the study is searched [default: as it says].",
        show_default=False,
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="MODULE:FACTORY",
        help="Your own code that the run's setting names and that may be imported; once for each name.",
        show_default=False,
    ),
]
StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY.toml", help="A study file, or the name of a shipped one.", autocompletion=complete.a_study
    ),
]


def print_json(value: Any) -> None:
    """For scripts."""
    print(json.dumps(value, indent=1))


def told(quiet: bool) -> "Callable[[str], None]":
    """What becomes of lines about how something goes: they are for people, so standard output has none of them."""
    return lambda line: print(line, file=sys.stderr, flush=True) if line and not quiet else None


def reading(runs: Path, quiet: bool = False) -> None:
    """A line before anything is loaded, where so many runs have to be read that it takes a while."""
    count = len(os.listdir(runs)) if runs.is_dir() and not quiet else 0
    if count >= MANY:
        told(False)(f"reading some {count:,} runs in {runs}")


def shown_by(study: str, runs: Path, scale: float, method: str = "") -> str:
    """The command that shows a study as it was trained."""
    flags = [f"--scale {scale:g}"] * (scale != 1) + [f"--method {method}"] * bool(method)
    return " ".join(["baton report", study, *flags, f"--runs {runs}"])


def built(setting: "Setting", trust: Sequence[str]) -> "Setting":
    """A stored run's setting, checked as if it were typed, to build from.

    A user's own code is imported only where its name is given: a store may be anybody's. Samples and code have to be
    those of the run, as far as it tells.
    """
    for name in setting.paths:
        if name not in trust:
            raise BadInput(f"run: its setting names {name}, which would be imported; --trust {name} if it is yours")
    now = type(setting)(**setting.model_dump())
    if any(setting.made_of) and now.made_of != setting.made_of:
        what = f"samples of {setting.dataset}" if now.made_of.data != setting.made_of.data else "code"
        raise BadInput(f"run: it was trained with other {what} than what is here now")
    return now


def use_data_dir(folder: Path | None) -> None:
    """Look for data sets here first."""
    if folder is not None:
        from baton.datasets import find

        find.use(folder)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"baton {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
