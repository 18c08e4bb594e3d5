"""Columns as they grow block by block: numbers, or words, as their cells say; both in one column is an error."""

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "NULL", "null", "Null", "None", "none", "<NA>", "?")
_MISSING = frozenset(MISSING)

LARGEST = float(np.finfo(np.float32).max)
DECIMAL_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}([. ]\d{3})+),\d+([eE][+-]?\d+)?")

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


class Column(NamedTuple):
    """A whole column: one of the two."""

    numbers: Numbers | None  # [N] NaN: missing
    codes: Codes | None  # [N] of its words, -1: missing
    words: tuple[str, ...] = ()  # sorted

    def missing(self) -> NDArray[np.bool_]:
        """Rows that have no value [N]."""
        if self.numbers is not None:
            return np.isnan(self.numbers)
        assert self.codes is not None
        return self.codes < 0

    def take(self, rows: NDArray[Any]) -> "Column":
        """Some of its rows, in this order."""
        numbers = None if self.numbers is None else self.numbers[rows]
        return Column(numbers, None if self.codes is None else self.codes[rows], self.words)


class Mark(NamedTuple):
    """Where a column stood."""

    parts: int
    kind: str
    words: int


class Growing:
    """A column while its file is read."""

    def __init__(self, name: str, words: bool = False) -> None:
        """words: take its cells as words, whatever they look like."""
        self.name, self.forced = name, words
        self.kind = "words" if words else ""  # "": nothing but missing cells so far
        self.parts: list[NDArray[Any] | int] = []  # numbers or codes; so many missing cells
        self.words: dict[str, int] = {}
        self.gone: set[str] = set()  # how its missing cells were written

    def mark(self) -> Mark:
        """To come back to."""
        return Mark(len(self.parts), self.kind, len(self.words))

    def back(self, mark: Mark) -> None:
        """Forget what came after the mark."""
        del self.parts[mark.parts :]
        self.kind, self.words = mark.kind, dict(list(self.words.items())[: mark.words])

    def numbers(self, block: Numbers, file: object, row: int) -> None:
        """Cells that are all numbers, NaN where missing; row: of the first one."""
        held = ~np.isnan(block)
        if not held.any():
            self.parts.append(len(block))
            return
        if self.kind == "words":
            raise self._mixed(file, row + int(held.argmax()), f"{block[held.argmax()]:g}", "a number", "words")
        with np.errstate(invalid="ignore"):
            large = np.abs(block) > LARGEST
        if large.any():
            self._too_large(file, row + int(large.argmax()), float(block[large.argmax()]))
        self.kind = "numbers"
        self.parts.append(np.ascontiguousarray(block, np.float64))

    def cells(self, cells: "list[str] | tuple[str, ...]", file: object, row: int) -> None:
        """Cells as they are written."""
        if not self.forced:
            try:
                self.numbers(np.array(list(map(float, cells)), np.float64), file, row)
                return
            except ValueError as error:
                if isinstance(error, BadInput):
                    raise
        seen: dict[str, int] = {}
        codes = np.array([seen.setdefault(cell, len(seen)) for cell in cells], np.int64)
        self.encoded(codes, list(seen), file, row)

    def encoded(self, codes: Codes, words: list[str], file: object, row: int) -> None:
        """Cells as places [n] in a list of different ones."""
        words = [word.strip() for word in words]
        values = [None if word in _MISSING or self.forced else _number(word) for word in words]
        lacks = np.array([word in _MISSING for word in words])
        self.gone.update(word for word in words if word in _MISSING)
        said = [i for i, word in enumerate(words) if values[i] is None and word not in _MISSING]
        if not said and not self.forced:
            self.numbers(np.array([np.nan if v is None else v for v in values])[codes], file, row)
            return
        counted = [i for i, value in enumerate(values) if value is not None]
        if (counted or self.kind == "numbers") and not self.forced:
            few = np.isin(codes, said).sum() <= np.isin(codes, counted).sum()  # the rarer kind is the mistake
            texts = self.kind == "numbers" or (not self.kind and few)
            place = int(np.isin(codes, said if texts else counted).argmax())
            what = ("text", "numbers") if texts else ("a number", "words")
            raise self._mixed(file, row + place, words[codes[place]], *what)
        self.kind = "words"
        own = [-1 if gone else self.words.setdefault(w, len(self.words)) for w, gone in zip(words, lacks, strict=True)]
        self.parts.append(np.array(own, np.int64)[codes])

    def whole(self) -> Column:
        """The column, once all is read; what it grew from is let go."""
        parts, self.parts = self.parts, []
        if self.kind != "words":
            blocks = [np.full(part, np.nan) if isinstance(part, int) else part for part in parts]
            return Column(np.concatenate(blocks) if blocks else np.empty(0), None)
        codes = np.concatenate([np.full(part, -1) if isinstance(part, int) else part for part in parts])
        names = sorted(self.words)
        place = np.array([*(names.index(word) for word in self.words), -1], np.int64)  # the last: of a missing cell
        return Column(None, place[codes], tuple(names))

    def _too_large(self, file: object, row: int, value: float) -> None:
        where = f"dataset: {file}: row {row}, column {self.name!r}"
        if np.isinf(value):
            raise BadInput(f"{where}: is infinite; a finite number, or nothing, is right")
        raise BadInput(
            f"{where}: got {value:g}; expected numbers of at most {LARGEST:.2g}, which is what float32 holds"
        )

    def _mixed(self, file: object, row: int, cell: str, kind: str, others: str) -> BadInput:
        where = f"dataset: {file}: row {row}, column {self.name!r}: {_short(cell)} is {kind}"
        if DECIMAL_COMMA.fullmatch(cell):
            return BadInput(f"dataset: {file}: row {row}, {decimal_comma(self.name, cell)}")
        return BadInput(f"{where}, and other rows have {others}; correct it, or categorical={self.name} takes words")


def decimal_comma(name: str, cell: str) -> str:
    """Return what is wrong with a column whose numbers have a decimal comma, and how to write the file."""
    right = f"expected a decimal point, such as {cell.replace('.', '').replace(' ', '').replace(',', '.')}"
    ways = "save the file with English number formats, or by pandas' read_csv(decimal=',') and to_csv"
    return f"column {name!r}: got {cell!r}, a number with a decimal comma; {right}: {ways}"


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else f"{text[:30]}…")
