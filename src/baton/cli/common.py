"""What the commands share: the app, common options, printing."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from baton import __version__

app = typer.Typer(
    help="Train one model over data that stays at many clients, and compare the ways of passing it around.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="The store of runs.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to train.")]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Memory to use, e.g. 2GB \\[default: half of what is free].")
]
Precision = Annotated[
    str, typer.Option(metavar="auto|fp32|tf32|bf16", help="Of the operands of matrix products on a GPU.")
]
Checkpoint = Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="Between checkpoints.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
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
        help="How the study is searched \\[default: as it says].",
        show_default=False,
    ),
]
StudyName = Annotated[str, typer.Argument(metavar="STUDY.toml", help="A study file, or the name of a shipped one.")]


def print_json(value: Any) -> None:
    """For scripts."""
    print(json.dumps(value, indent=1))


def shown_by(study: str, runs: Path, scale: float, method: str = "") -> str:
    """The command that shows a study as it was trained."""
    flags = [f"--scale {scale:g}"] * (scale != 1) + [f"--method {method}"] * bool(method)
    return " ".join(["baton report", study, *flags, f"--runs {runs}"])


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
