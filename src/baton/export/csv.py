"""The table as CSV; every number in the digits that give it back."""

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from baton.export import table
from baton.export.choice import Choice, read
from baton.store import Run
from baton.store.columns import METRICS


def write(choice: Choice, out: str) -> Iterator[str]:
    """One file, written run by run."""
    with _file(out) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(table.NAMES)
        for run_id in choice.settings:
            rows.writerows(_rows(run_id, read(choice, run_id)))
            yield run_id


@contextmanager
def _file(out: str) -> Iterator[TextIO]:
    """Where it goes: `-` is standard output."""
    if out == "-":
        yield sys.stdout
        sys.stdout.flush()
    else:
        with table.whole(Path(out)) as temporary, open(temporary, "w", newline="") as file:
            yield file


def _rows(run_id: str, run: Run) -> Iterator[tuple[Any, ...]]:
    head = (run_id, *run.setting.model_dump().values())
    tail = ("true" if run.complete else "false", "" if run.diverged is None else run.diverged)
    columns: list[list[Any]] = [run.metrics["round"].astype(int).tolist()]
    for name in METRICS:
        values, empty = table.metric(run, name)
        columns.append(["" if gone else value for value, gone in zip(values.tolist(), empty.tolist(), strict=True)])
    for cells in zip(*columns, strict=True):
        yield (*head, *cells, *tail)
