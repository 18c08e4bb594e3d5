"""CSV and TSV with what Python and NumPy have: streamed in blocks, whole blocks of numbers by NumPy's own parser."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple, TextIO

import numpy as np

from baton.datasets.table.columns import Growing
from baton.datasets.table.files import File
from baton.errors import BadInput
from baton.regular import opened

ROWS = 8192  # of a block

Start = Callable[[list[str]], list[Growing | None]]  # the header's names -> what is to grow; None: left out


class Header(NamedTuple):
    """The first row that is not empty."""

    names: list[str]
    separator: str
    lines: int  # that it and what is before it take


@contextmanager
def text(file: File, encoding: str) -> Iterator[TextIO]:
    """A file's text, unpacked; what is wrong with it while it is read is told in one line."""
    try:
        with opened(file.path, field="dataset") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            data = gzip.GzipFile(fileobj=raw) if packed else raw
            codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
            yield io.TextIOWrapper(data, codec, newline="")
    except UnicodeDecodeError as error:
        shown = f"byte 0x{error.object[error.start]:02x}"
        other = "encoding=latin-1" if encoding == "utf-8" else "another encoding="
        raise BadInput(f"dataset: {file.path}: is not {encoding} ({shown}); {other} may be right") from None
    except LookupError:
        raise BadInput(f"dataset: encoding={encoding} is not known; utf-8, latin-1 or utf-16 is right") from None
    except csv.Error as error:
        raise BadInput(f"dataset: {file.path}: is no CSV ({error})") from None
    except (EOFError, zlib.error, OSError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"dataset: {file.path}: cannot be read ({error})") from None


def header(file: File, encoding: str) -> Header:
    """The names of the columns, and what parts them: tabs in .tsv, else commas, or semicolons where there are none."""
    with text(file, encoding) as lines:
        first = next((line for line in lines if line.strip()), "")
    separator = "\t" if file.tabs else ";" if ";" in first and "," not in first else ","
    with text(file, encoding) as lines:
        reader = csv.reader(lines, delimiter=separator, strict=True)
        names = next((row for row in reader if row), None)
        if names is None:
            raise BadInput(f"dataset: {file.path}: is empty; a row of column names, then rows of values, is right")
        return Header(checked([name.strip() for name in names], file), separator, reader.line_num)


def checked(names: list[str], file: File) -> list[str]:
    """The names of columns: each once, none empty but the first, which then holds row numbers."""
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        what = "the first row names the columns, each once" if _number(twice) else "each name once is right"
        raise BadInput(f"dataset: {file.path}: its header has {twice!r} twice; {what}")
    if "" in names[1:]:
        raise BadInput(f"dataset: {file.path}: column {names.index('', 1) + 1} of its header has no name")
    return names


def _number(word: str) -> bool:
    return word.replace(".", "").replace("-", "").isdigit()


def read(file: File, encoding: str, start: Start) -> int:
    """Let columns grow by the file's rows; how many there were."""
    names, separator, skipped = header(file, encoding)
    columns = start(names)
    row = 2  # as a spreadsheet counts: the header is row 1
    with text(file, encoding) as stream:
        for _ in islice(stream, skipped):
            pass
        while lines := list(islice(stream, ROWS)):
            row += _fast(lines, columns, separator, file, row) or _slow(lines, stream, columns, separator, file, row)
    return row - 2


def _fast(lines: list[str], columns: list[Growing | None], separator: str, file: File, row: int) -> int:
    """A block without quotes, with all columns there, and nothing but numbers where there were numbers before.

    0: it is not such a block, and nothing grew.
    """
    commas = len(columns) - 1
    counted = [i for i, each in enumerate(columns) if each is not None and each.kind == "numbers"]
    if not counted or any(line.count(separator) != commas or '"' in line for line in lines):
        return 0
    gone = set[str]().union(*(each.gone for each in columns if each is not None))
    given = _marked(lines, gone, separator) if gone else lines
    try:
        block = np.loadtxt(given, np.float64, comments=None, delimiter=separator, usecols=counted, ndmin=2)
    except ValueError:
        return 0
    if len(block) != len(lines):
        return 0
    others = [i for i, each in enumerate(columns) if each is not None and each.kind != "numbers"]
    if others:
        rows = [line.split(separator, others[-1] + 1) for line in lines]
        for i in others:
            _grow(columns[i], [cells[i] for cells in rows], file, row)
    for k, i in enumerate(counted):
        column = columns[i]
        assert column is not None
        column.numbers(block[:, k], file, row)
    return len(lines)


def _marked(lines: list[str], gone: set[str], separator: str) -> list[str]:
    """Lines in which cells that say nothing, written as before in this file, say nan, which NumPy reads."""
    text = "\n" + "".join(lines).replace("\r\n", "\n") + "\n"
    for word in gone:
        for before, after in (("\n", separator), (separator, separator), (separator, separator), (separator, "\n")):
            text = text.replace(
                f"{before}{word}{after}", f"{before}nan{after}"
            )  # twice between: they may be neighbours
    return text.split("\n")[1 : len(lines) + 1]


def _slow(lines: list[str], stream: TextIO, columns: list[Growing | None], separator: str, file: File, row: int) -> int:
    """Any block; one that ends inside quotes goes on until they do."""
    reader = csv.reader(chain(lines, stream), delimiter=separator, strict=True)
    rows: list[list[str]] = []
    for cells in reader:
        if cells and len(cells) != len(columns):
            has = f"has {len(cells)} fields; the header has {len(columns)}"
            raise BadInput(f"dataset: {file.path}: row {row + len(rows)} {has}")
        if cells:
            rows.append(cells)
        if reader.line_num >= len(lines):
            break
    for column, cells_of in zip(columns, zip(*rows, strict=True), strict=False):
        _grow(column, cells_of, file, row)
    return len(rows)


def _grow(column: Growing | None, cells: "list[str] | tuple[str, ...]", file: File, row: int) -> None:
    if column is not None:
        column.cells(cells, file.path, row)
