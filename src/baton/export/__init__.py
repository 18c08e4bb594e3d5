"""Stored runs where others already look: TensorBoard, MLflow, one table."""

from pathlib import Path

from baton.errors import BadInput, nearest
from baton.export import csv, mlflow, parquet, tensorboard
from baton.export.choice import Choice, Target, choose

__all__ = ["TARGETS", "Choice", "check", "choose"]

TARGETS: dict[str, Target] = {
    "tensorboard": tensorboard.write,
    "mlflow": mlflow.write,
    "csv": csv.write,
    "parquet": parquet.write,
}


def check(to: str, out: Path | None, uri: str | None) -> str:
    """Where the runs go, if that can be: a path, or a tracking URI for MLflow."""
    if to not in TARGETS:
        raise BadInput(f"to: no target {to!r}; {nearest(to, TARGETS)}")
    if uri is not None and (to != "mlflow" or out is not None):
        raise BadInput(f"uri: {uri!r}; a tracking URI goes with --to mlflow, in the place of --out")
    if uri is not None:
        return uri
    folder = to in ("tensorboard", "mlflow")
    if str(out) == "-" and to != "csv":
        raise BadInput(f"out: '-' is standard output, which takes text: --to csv is right, or a path for {to}")
    if out is None:
        example = "DIR" if folder else f"runs.{to}"
        raise BadInput(f"out: not given; --out {example} is right" + (", or --uri URI" if to == "mlflow" else ""))
    if folder and out.exists() and not out.is_dir():
        raise BadInput(f"out: {str(out)!r} is a file; a folder is right")
    if not folder and out.is_dir():
        raise BadInput(
            f"out: {str(out)!r} is a folder; the name of a file is right, such as {str(out / f'runs.{to}')!r}"
        )
    return mlflow.sqlite(out) if to == "mlflow" else str(out)
