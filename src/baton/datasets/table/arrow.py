"""CSV by pyarrow's reader, which is faster, and Parquet, which needs it. The arrays are the same as without it."""

import gzip
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np

from baton.datasets.table import plain
from baton.datasets.table.columns import MISSING, Growing
from baton.datasets.table.files import File
from baton.datasets.table.plain import Start
from baton.errors import BadInput
from baton.regular import opened

BLOCK = 4 << 20  # bytes of text at a time
SAMPLE = 500  # rows that tell numbers from words
INDEX = "__index_level_"  # how the columns begin in which pandas keeps row numbers
BATCH = 1 << 16  # rows of Parquet at a time


class Otherwise(Exception):
    """Something in the file is not as pyarrow would have it: the plain reader takes it, or says what is wrong."""


class _Quoted:
    """A file whose quotes are counted as it is read."""

    def __init__(self, file: Any) -> None:
        self.file, self.quotes, self.closed = file, 0, False

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self.file.read(size)
        self.quotes += data.count(b'"')
        return data

    def close(self) -> None:
        """The file is closed by who opened it."""


def here() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def read(file: File, encoding: str, start: Start) -> int:
    """Let columns grow by the rows of a CSV; Otherwise, where this reader cannot."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import csv

    names, separator, lines = plain.header(file, encoding)
    columns = start(names)
    numbers = _numbers(file, encoding, separator, lines, columns)
    wanted = [i for i, column in enumerate(columns) if column is not None]
    types = {f"c{i}": pa.float64() if i in numbers else pa.string() for i in wanted}
    options = (
        csv.ReadOptions(
            column_names=[f"c{i}" for i in range(len(names))], skip_rows=lines, block_size=BLOCK, encoding=encoding
        ),
        csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=list(MISSING)),
    )
    row = 2
    try:
        with opened(file.path, field="dataset") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            whole = _Quoted(gzip.GzipFile(fileobj=raw) if packed else raw)
            for batch in csv.open_csv(pa.PythonFile(whole, mode="r"), *options):
                for i, array in zip(wanted, batch.columns, strict=True):
                    column = columns[i]
                    assert column is not None
                    _grow(column, array, file, row)
                row += batch.num_rows
            if whole.quotes % 2:  # the last ones are open, which this reader lets pass
                raise Otherwise
    except (pa.ArrowException, pa.ArrowInvalid, UnicodeError, OSError, EOFError) as error:
        raise Otherwise from error
    return row - 2


def _numbers(file: File, encoding: str, separator: str, lines: int, columns: list[Growing | None]) -> set[int]:
    """Columns that begin with numbers: those are parsed as such."""
    import csv

    with plain.text(file, encoding) as stream:
        for _ in islice(stream, lines):
            pass
        rows = [row for row in islice(csv.reader(stream, delimiter=separator), SAMPLE) if row]
    found = set()
    for i, column in enumerate(columns):
        if column is None or column.forced:
            continue
        cells = {row[i].strip() for row in rows if i < len(row)} - {*MISSING}
        if column.kind == "numbers" or (not column.kind and cells and all(map(_number, cells))):
            found.add(i)
    return found


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _grow(column: Growing, array: Any, file: File, row: int) -> None:
    """By one block of a column: float64 with nulls, or strings."""
    import pyarrow as pa

    if pa.types.is_floating(array.type):
        column.numbers(array.to_numpy(zero_copy_only=False), file.path, row)
        return
    told = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words = [*(str(word) for word in told.dictionary.to_pylist()), ""]
    codes = told.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
    column.encoded(codes, words, file.path, row)


def parquet(file: File, start: Start) -> int:
    """Let columns grow by the rows of a Parquet file."""
    if not here():
        raise BadInput(f"dataset: {file.path}: Parquet needs pyarrow; 'pip install baton-fl[parquet]' installs it")
    import pyarrow as pa
    from pyarrow import parquet as pq

    row = 1
    try:
        with opened(file.path, field="dataset") as raw, pq.ParquetFile(raw) as table:
            held = [name for name in table.schema_arrow.names if not name.startswith(INDEX)]
            names = plain.checked([name.strip() for name in held], file)
            columns = dict(zip(held, start(names), strict=True))
            wanted = [name for name, column in columns.items() if column is not None]
            for batch in table.iter_batches(BATCH, columns=wanted):
                for name, array in zip(batch.schema.names, batch.columns, strict=True):
                    column = columns[name]
                    assert column is not None
                    _grow(column, _plain(array, column, file), file, row)
                row += batch.num_rows
    except (pa.ArrowException, pa.ArrowInvalid, OSError) as error:
        what = " ".join(str(error).split())[:200]
        raise BadInput(f"dataset: {file.path}: is no readable Parquet file ({what})") from None
    return row - 1


def _plain(array: Any, column: Growing, file: File) -> Any:
    """A Parquet column's block as float64 or strings."""
    import pyarrow as pa

    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if texts or column.forced:
        return array.cast(pa.string())
    right = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    if not any(each(kind) for each in right):
        where = f"dataset: {file.path}: column {column.name!r}"
        raise BadInput(f"{where} holds {kind}; numbers or text is right, or drop={column.name}")
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    return array.cast(pa.float64())
