"""What was measured so far: it only grows, and every snapshot has its own."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Row = tuple[int, NDArray[np.float64]]  # a round, and a value a lane [L]


class _Series(NamedTuple):
    """The first rows of a list, which may have become longer since."""

    rows: list[Row]
    length: int

    def then(self, row: Row) -> "_Series":
        rows = self.rows if len(self.rows) == self.length else self.rows[: self.length]  # another went on from here
        rows.append(row)
        return _Series(rows, self.length + 1)


class History(Mapping[str, list[Row]]):
    """Metric -> its rows, by round. A value: to add rows is to make another one.

    Those that grew out of one another share their lists, and each knows how much of them is its own: one for every
    round costs no more than the last.
    """

    def __init__(self, rows: Mapping[str, Iterable[Row]] | None = None) -> None:
        self._series = {metric: _Series(own := list(each), len(own)) for metric, each in (rows or {}).items()}

    def __getitem__(self, metric: str) -> list[Row]:
        rows, count = self._series[metric]
        return rows[:count]

    def __iter__(self) -> Iterator[str]:
        return iter(self._series)

    def __len__(self) -> int:
        return len(self._series)

    def __contains__(self, metric: object) -> bool:
        return metric in self._series  # Mapping's own would copy the rows

    def last(self, metric: str) -> Row:
        """The newest row."""
        rows, count = self._series[metric]
        return rows[count - 1]

    def after(self, metric: str, round: int) -> list[Row]:
        """The rows of later rounds than this one."""
        rows, count = self._series[metric]
        return rows[bisect_right(rows, round, hi=count, key=lambda row: row[0]) : count]

    def then(self, round: int, values: Mapping[str, NDArray[np.float64]]) -> Self:
        """With one more row for each of these metrics."""
        none = _Series([], 0)
        more = {metric: self._series.get(metric, none).then((round, found)) for metric, found in values.items()}
        return self._of(self._series | more)

    def _of(self, series: dict[str, _Series]) -> Self:
        other = type(self)()
        other._series = series
        return other
