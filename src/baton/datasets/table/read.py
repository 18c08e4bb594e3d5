"""All files of a table as columns: by pyarrow where it is installed, otherwise by Python and NumPy."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton import limits
from baton.datasets.table import arrow, plain
from baton.datasets.table.columns import Column, Growing
from baton.datasets.table.files import PACKED, File
from baton.errors import BadInput, nearest

EACH = 14  # bytes that a number takes at most on its way: 8 as it is read, 4 as it is kept, and what moves


class Table(NamedTuple):
    """Columns of equal length."""

    columns: dict[str, Column]
    site: NDArray[np.int64] | None  # [N] the file each row comes from, where a file is a site
    names: tuple[str, ...]  # of those sites
    unnamed: bool  # whether a first column without a name was left out


class Wanted(NamedTuple):
    """What is read of the files."""

    needed: dict[str, str]  # columns that must be there -> the option that names them
    words: frozenset[str]  # columns taken as words, whatever they look like
    drop: frozenset[str]
    encoding: str


def read(files: Sequence[File], wanted: Wanted, fast: bool | None = None) -> Table:
    """Every file, one after another; fast: with pyarrow; None: where it is installed."""
    growing: dict[str, Growing] = {}
    unnamed = False

    def start(names: list[str]) -> list[Growing | None]:
        nonlocal unnamed
        unnamed |= names[:1] == [""]
        _check(names, wanted, files[len(rows)], list(growing) if rows else None)
        for name in names:
            if name and name not in wanted.drop and name not in growing:
                growing[name] = Growing(name, name in wanted.words)
        return [growing.get(name) for name in names]

    rows: list[int] = []
    for file in files:
        _fits(file, wanted.encoding)
        rows.append(_one(file, wanted.encoding, start, growing, arrow.here() if fast is None else fast))
        if not rows[-1]:
            raise BadInput(f"dataset: {file.path}: has a header and no rows")
    sites = tuple(file.site for file in files)
    whole = {name: column.whole() for name, column in growing.items()}
    if not sites[0]:
        return Table(whole, None, (), unnamed)
    return Table(whole, np.repeat(np.arange(len(files)), rows), sites, unnamed)


def _one(file: File, encoding: str, start: plain.Start, growing: dict[str, Growing], fast: bool) -> int:
    if file.parquet:
        return arrow.parquet(file, start)
    if fast:
        marks = {name: column.mark() for name, column in growing.items()}
        try:
            return arrow.read(file, encoding, start)
        except arrow.Otherwise:
            for name in list(growing):
                if name in marks:
                    growing[name].back(marks[name])
                else:
                    del growing[name]
    return plain.read(file, encoding, start)


def _check(names: list[str], wanted: Wanted, file: File, before: list[str] | None) -> None:
    """Whether a file has the columns that were named, and those that the files before it had."""
    for name, option in wanted.needed.items():
        if name not in names:
            raise BadInput(f"dataset: {option}={name}: {file.path} has no such column; {nearest(name, names)}")
    if before is not None:
        own = {name for name in names if name and name not in wanted.drop}
        if odd := sorted(own ^ set(before)):
            has = "has a column" if odd[0] in own else "lacks the column"
            raise BadInput(
                f"dataset: {file.path}: {has} {odd[0]!r}, unlike the files before it; drop={odd[0]} or add it"
            )


def _fits(file: File, encoding: str) -> None:
    """Refuse a file whose numbers cannot be held, before it is read: counted on its first bytes."""
    if file.parquet or file.path.name.lower().endswith(PACKED) or not os.path.isfile(file.path):
        return
    with plain.text(file, encoding) as stream:
        sample = stream.read(1 << 16)
    cells = max(sample.count(mark) for mark in ",;\t") + sample.count("\n")
    size = os.path.getsize(file.path)
    numbers = size * cells // max(1, len(sample))
    limits.fits(EACH * numbers, f"dataset: {file.path}: has {size:,} bytes, about {numbers:,} values")
