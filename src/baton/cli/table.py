"""Tables in a terminal: as wide as it is, numbers never split over lines."""

from collections.abc import Sequence
from shutil import get_terminal_size
from typing import NamedTuple

GAP = "  "
LEAST = 6  # characters that a shortened column keeps


class Column(NamedTuple):
    """A head of one or two lines and a cell a row."""

    head: str  # its lines parted by \n
    cells: list[str]
    left: bool = False  # words stand at the left, numbers at the right
    shrinks: bool = False  # long words may end in …

    @property
    def width(self) -> int:
        """Of its longest line."""
        return max(len(line) for line in [*self.head.split("\n"), *self.cells])


def width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return max(40, get_terminal_size((80, 24)).columns)


def fitting(columns: Sequence[Column], room: int) -> list[Column]:
    """The first of these that stand side by side in so many characters; the first stays in any case."""
    found = list(columns)
    while len(found) > 1 and _total([c.width for c in found]) > room:
        found.pop()
    return found


def lines(columns: Sequence[Column], room: int) -> list[str]:
    """Heads and rows; the widest of those that may shrink give way until all fits."""
    wide = [c.width for c in columns]
    while _total(wide) > room:
        able = [i for i, c in enumerate(columns) if c.shrinks and wide[i] > max(LEAST, len(c.head))]
        if not able:
            break
        wide[max(able, key=lambda i: wide[i])] -= 1
    heads = [c.head.split("\n") for c in columns]
    deep = max(map(len, heads))
    tops = [[[""] * (deep - len(head)) + head for head in heads][i] for i in range(len(heads))]
    rows = [[top[line] for top in tops] for line in range(deep)]
    rows += [list(row) for row in zip(*(c.cells for c in columns), strict=True)]
    return [GAP.join(_cell(c, cell, w) for c, cell, w in zip(columns, row, wide, strict=True)).rstrip() for row in rows]


def _total(wide: Sequence[int]) -> int:
    return sum(wide) + len(GAP) * (len(wide) - 1)


def _cell(column: Column, text: str, wide: int) -> str:
    short = text if len(text) <= wide else text[: wide - 1] + "…"
    return f"{short:<{wide}}" if column.left else f"{short:>{wide}}"
