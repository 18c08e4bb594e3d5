"""`baton export`: stored runs for TensorBoard, MLflow, pandas and the like."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from baton.cli.common import Quiet, Runs, Scale, app
from baton.cli.stored import print_left_out
from baton.errors import BadInput
from baton.shown import print


@app.command()
def export(
    to: Annotated[str, typer.Option("--to", metavar="tensorboard|mlflow|csv|parquet", help="What they are for.")],
    study: Annotated[str, typer.Argument(metavar="STUDY.toml", help="A study; left out: every run in the store.")] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="PATH", help="A folder; for csv and parquet a file; with csv - prints it."),
    ] = None,
    uri: Annotated[
        str | None, typer.Option("--uri", metavar="URI", help="MLflow's tracking URI, in the place of --out.")
    ] = None,
    runs: Runs = Path("runs"),
    scale: Scale = 1.0,
    quiet: Quiet = False,
) -> None:
    """Stored runs where others already look: TensorBoard, MLflow, one tidy table."""
    from baton import export as exports
    from baton import study as studies
    from baton.store import Store

    if scale != 1 and not study:
        raise BadInput(f"scale: {scale:g}; it goes with a study")
    where, store = exports.check(to, out, uri), Store(runs)
    choice = exports.choose(store, studies.read(study, scale) if study else None)
    print_left_out(store.faults() if not study else {})
    if left_out := store.describe_earlier():
        print(f"baton: {left_out}", file=sys.stderr)
    try:
        _follow(exports.TARGETS[to](choice, where), len(choice.settings), quiet)
    except BrokenPipeError:  # `baton export --to csv --out - | head`
        raise
    except OSError as error:
        raise BadInput(f"export: {error.filename or where}: {error.strerror or error}") from None
    if not quiet and str(out) != "-":
        count, done = len(choice.settings), sum(map(store.complete, choice.settings))
        left = f" ({count - done:,} unfinished)" if done < count else ""
        print(f"{count:,} run{'s' if count > 1 else ''}{left} in {out or 'MLflow'}{_look(to, out, where)}")


def _look(to: str, out: Path | None, where: str) -> str:
    commands = {"tensorboard": f"tensorboard --logdir {out}", "mlflow": f"mlflow ui --backend-store-uri {where}"}
    return f"; '{commands[to]}' shows them" if out and to in commands else ""


def _follow(written: Iterator[str], total: int, quiet: bool) -> None:
    """A bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = quiet or not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("runs", total=total)
        for _ in written:
            bar.advance(task)
