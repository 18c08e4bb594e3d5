"""Exact numbers that a site has told under a policy that asks for noise: a line an evaluation, for people too.

They are outside epsilon. So each is told once: the same model is answered from here.
"""

import json
import time
from pathlib import Path
from typing import NamedTuple

import torch

from baton.deploy.book import Book, Lock
from baton.deploy.messages import Sums

LINES = "audit.jsonl"


class Entry(NamedTuple):
    """One evaluation."""

    run: str
    round: int
    model: str  # a hash of the model and of what was asked of it
    numbers: int  # that were told
    sums: list[float]
    metrics: dict[str, float]

    def told(self) -> Sums:
        """Return the answer as it was."""
        metrics = {label: torch.tensor(x, dtype=torch.float64) for label, x in self.metrics.items()}
        return Sums(*self.sums, metrics=metrics)  # type: ignore[misc, arg-type]


class Record:
    """Of one site, by all of its processes."""

    def __init__(self, folder: Path, lock: Lock) -> None:
        self.book = Book(folder / LINES, lock, _parse)

    def find(self, model: str) -> Entry | None:
        """Return what was told of a model before; None if nothing was."""
        return next((entry for entry in self.book.read() if entry.model == model), None)

    def rounds(self, run: str) -> set[int]:
        """Return the rounds of a run that were evaluated."""
        return {entry.round for entry in self.book.read() if entry.run == run}

    @property
    def count(self) -> int:
        """All numbers so far, of all runs."""
        return sum(entry.numbers for entry in self.book.read())

    def add(self, entry: Entry, *, exact: bool) -> None:
        """Write an evaluation down, before it is told."""
        says = outside(entry.numbers, exact=exact) + f"; {self.count + entry.numbers} in all"
        head = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "says": says}
        self.book.add(json.dumps({**head, **entry._asdict()}))


def outside(count: int, *, exact: bool) -> str:
    """Return so many numbers in words, for start and for the log."""
    return f"{count} {'exact numbers' if exact else 'blurred numbers'}, outside epsilon"


def _parse(line: str) -> Entry:
    table = json.loads(line)
    try:
        return Entry(**{field: table[field] for field in Entry._fields})
    except (KeyError, TypeError):
        raise ValueError(line) from None
