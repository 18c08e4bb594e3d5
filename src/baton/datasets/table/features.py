"""Columns as what a model takes: numbers on one scale, words as ones and zeros, a mark where a value was missing."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.datasets.table import scale as scales
from baton.datasets.table.columns import Column
from baton.errors import BadInput

WORDS = 100  # different ones in a column, at most: each becomes a feature

Bools = NDArray[np.bool_]


class Rows(NamedTuple):
    """Whose rows they are, and what they are for."""

    site: NDArray[np.int64]  # [N]
    sites: int
    test: Bools  # [N]


class Features(NamedTuple):
    """What became of the columns."""

    x: NDArray[np.float32]  # [N, features]
    names: tuple[str, ...]
    notes: tuple[str, ...]


def features(columns: dict[str, Column], rows: Rows, scale: str) -> Features:
    """Columns are taken out of the dict as they are used, so that both forms never lie in memory at once."""
    names, notes = list[str](), list[str]()
    constant, marked, hot = list[str](), list[str](), list[str]()
    width = sum(_width(name, column, rows) for name, column in columns.items())
    x = np.empty((len(rows.site), width), np.float32)
    for name in list(columns):
        column = columns.pop(name)
        made = list(_numbers(name, column, rows, scale) if column.numbers is not None else _words(name, column, rows))
        for label, values in made:
            x[:, len(names)] = values
            names.append(label)
        if column.numbers is None:
            hot.append(f"{name} ({len(made)})")
        elif len(made) > 1:
            marked.append(name)
        if column.numbers is not None and not np.ptp(x[~rows.test, len(names) - len(made)]):
            constant.append(name)
    for what, found in (
        ("as ones and zeros", hot),
        ("filled, with a mark", marked),
        ("constant in training", constant),
    ):
        if found:
            notes.append(f"columns {what}: {listed(found)}")
    return Features(x, tuple(names), tuple(notes))


def _width(name: str, column: Column, rows: Rows) -> int:
    if column.numbers is not None:
        return 1 + bool(np.isnan(column.numbers).any())
    count = len(column.words)
    if count > WORDS:
        raise BadInput(
            f"dataset: column {name!r} has {count:,} different words; drop={name}, or {WORDS} at most, is right"
        )
    return sum(1 for _ in _words(name, column, rows))


def _numbers(name: str, column: Column, rows: Rows, scale: str) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """One feature; where values are missing, the median of the training rows, and a second feature that marks them."""
    assert column.numbers is not None
    values, gone = column.numbers, np.isnan(column.numbers)
    if gone.any():
        held = values[~rows.test & ~gone]
        if not len(held):
            raise BadInput(f"dataset: column {name!r} has no value in any training row; drop={name} is right")
        values = np.where(gone, np.median(held), values)
    train = ~rows.test
    found = scales.moments(values[train], rows.site[train], rows.sites, scale)
    yield name, found.of(values, rows.site)
    if gone.any():
        yield f"{name} missing", gone.astype(np.float64)


def _words(name: str, column: Column, rows: Rows) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """A feature for each word of the training rows; a word that only test rows have is none of them."""
    assert column.codes is not None
    for code in np.unique(column.codes[~rows.test]).tolist():
        yield f"{name}={column.words[code] if code >= 0 else '(missing)'}", (column.codes == code).astype(np.float64)


def listed(names: list[str], most: int = 6) -> str:
    """The first few of some names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
