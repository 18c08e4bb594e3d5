"""One tidy table: a row a run and evaluation; the setting, the round, every metric, and how the run ended."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.setting import Setting
from baton.store import Run
from baton.store.columns import METRICS

FIELDS = tuple(Setting.model_fields)
NAMES = ("run", *FIELDS, "round", *METRICS, "complete", "diverged")


def metric(run: Run, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A metric's values and where there is none; nan itself stands only in the row a run diverged at."""
    rounds = run.metrics["round"]
    values = run.metrics.get(name, np.full(len(rounds), np.nan))
    empty = np.isnan(values)
    if not empty.all():
        empty &= rounds != run.diverged
    return values, empty


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A file to write; it takes its own name only once it is whole."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".part.{os.getpid()}")  # no part of its name: TensorBoard reads what is called so
    try:
        yield temporary
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)
