"""The table as CSV; every number in the digits that give it back."""

import csv
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any, TextIO

from baton.export import table
from baton.export.choice import Choice, read
from baton.shown import cell
from baton.store import Run


def write(choice: Choice, out: str) -> Iterator[str]:
    """One file, written run by run; another beside it for sites, where any were measured and it is a file."""
    metrics = table.columns(choice)
    with _file(out) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(table.names(metrics))
        for run_id in choice.settings:
            rows.writerows(_rows(run_id, read(choice, run_id), metrics))
            yield run_id
    if out != "-":
        _sites(choice, Path(out))


@contextmanager
def _file(out: str) -> Iterator[TextIO]:
    """Where it goes: `-` is standard output."""
    if out == "-":
        yield sys.stdout
        sys.stdout.flush()
    else:
        with table.whole(Path(out)) as temporary, open(temporary, "w", newline="") as file:
            yield file


def _sites(choice: Choice, out: Path) -> None:
    every = ((run, found) for run in choice.settings if (found := table.of_sites(choice, run)))
    first = next(every, None)
    if first is None:
        return
    with _file(str(table.beside(out))) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["run", *table.OfSites._fields])
        for run, found in chain([first], every):
            for *head, value in zip(*found, strict=True):
                rows.writerow([run, *map(cell, head), "" if isnan(value) else value])


def _rows(run_id: str, run: Run, metrics: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    head = (run_id, *map(cell, table.fields(run.setting).values()))
    tail = ("true" if run.complete else "false", "" if run.diverged is None else run.diverged)
    columns: list[list[Any]] = [run.metrics["round"].astype(int).tolist()]
    for name in metrics:
        values, empty = table.metric(run, name)
        columns.append(["" if gone else value for value, gone in zip(values.tolist(), empty.tolist(), strict=True)])
    for cells in zip(*columns, strict=True):
        yield (*head, *cells, *tail)
