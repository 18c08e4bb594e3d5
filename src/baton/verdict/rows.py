"""What the size of a test set allows: other test rows from the same source would have given other numbers.

Each final model is described by how far each row moves its metric. The product of two models' descriptions is the
covariance that the draw of rows gives their metrics, so that a difference of models answering the same rows is paired.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class RowErrors:
    """How far the draw of test rows may have moved one model's metric, in the metric's own unit.

    Rows are drawn within strata: all rows, or a class, a site, a class at a site.
    """

    test_set: str  # models that answer the same rows share it
    rows: int  # test rows that the metric rests on
    values: Array  # [n] what each row adds to the metric, or anything by which two answers to it differ
    parts: Array  # [n], of a bootstrap [draws]: each row's part of the error; their squares add up to the variance
    strata: NDArray[np.int64] | None  # [n] the stratum of each row; None: of a bootstrap
    freedom: float  # of a bootstrap: rows of the smallest stratum less one


class Rows(NamedTuple):
    """The standard error that a test set leaves in a difference."""

    n: int  # test rows
    error: float
    paired: bool  # from both sides' answers, row by row; else at most this, were they independent
    freedom: float = math.inf


def sampling_error(accuracy: float, count: int) -> float:
    """Of one accuracy: sqrt(p (1 - p) / n), p with one right and one wrong row more, so that 100 % has an error too."""
    p = (accuracy / 100 * count + 1) / (count + 2)
    return 100 * math.sqrt(p * (1 - p) / count)


def bounded(one: float, other: float, count: int) -> Rows:
    """Of a difference, known from the accuracies alone: as if the two erred independently of each other.

    On the same rows models mostly err together, so that the true error is smaller.
    """
    error = math.hypot(sampling_error(one, count), sampling_error(other, count))
    return Rows(count, error, False, max(1, count - 1))


def by_row(values: Array, *, strata: NDArray[np.int64], weight: Array, test_set: str) -> RowErrors:
    """Describe a model whose metric is a weighted sum of one value a row.

    values [n]; strata [n]; weight [n]: what a row's value counts in the metric, 1 / n for a mean. Every stratum that
    counts has two rows or more.
    """
    worth = values * weight
    count = np.bincount(strata)
    mean = np.bincount(strata, worth) / np.maximum(count, 1)
    spread = np.sqrt(count / np.maximum(count - 1, 1))  # rows are nearer to their own mean than to the true one
    parts = (worth - mean[strata]) * spread[strata]
    size = int(np.count_nonzero(weight))
    return RowErrors(test_set=test_set, rows=size, values=worth, parts=parts, strata=strata, freedom=math.nan)


def by_draws(draws: Array, *, values: Array, rows: int, smallest: int, test_set: str) -> RowErrors:
    """Describe a model by its metric in each draw of a bootstrap, the same draws for all models.

    values [n]: anything by which two answers to a row differ; smallest: rows of the smallest stratum.
    """
    parts = (draws - draws.mean()) / math.sqrt(len(draws) - 1)
    freedom = float(min(smallest, len(draws)) - 1)
    return RowErrors(test_set=test_set, rows=rows, values=values, parts=parts, strata=None, freedom=freedom)


def scaled(errors: RowErrors, value: float, least: float) -> RowErrors:
    """Return the errors of the power of ten of a metric whose value is this, or the least that is told from 0."""
    slope = 1 / (max(value, least) * math.log(10))
    return replace(errors, values=errors.values * slope, parts=errors.parts * slope)


def row_error(one: Sequence[RowErrors], other: Sequence[RowErrors], *, paired: bool) -> Rows:
    """Return the error that the draw of rows leaves in the mean of one side's models less that of the other's.

    paired: whether the two sides are seed by seed. Their rows are paired where all models answer the same ones.
    What a seed's luck with a row adds is in the spread over seeds, and is not counted again here. One more row like
    those in which the two differ is counted, so that few of them do not pass for certainty (as Agresti and Min do).
    """
    every = [*one, *other]
    alike = len({(each.test_set, each.parts.shape, each.values.shape) for each in every}) == 1
    if alike and paired:
        sides = [(_stack(one, "parts") - _stack(other, "parts"), _stack(one, "values") - _stack(other, "values"))]
    else:
        sides = [(_stack(side, "parts"), _stack(side, "values")) for side in (one, other)]
    means = [(parts.mean(0), values.mean(0)) for parts, values in sides]
    if alike and not paired:
        means = [(means[0][0] - means[1][0], means[0][1] - means[1][1])]
    moved = [_by_stratum(parts, each) for (parts, _), each in zip(means, (one[0], other[0]), strict=False)]
    squares, freedoms = (np.concatenate(each) for each in zip(*moved, strict=True))
    size, whole = min(each.rows for each in every), float(squares.sum())
    differ = float(np.mean([_effective(values) for _, values in means]))
    if not whole or not differ:
        return Rows(size, 0.0, alike, 1.0)
    luck = sum(float(parts.var(0, ddof=1).sum()) / len(parts) for parts, _ in sides if len(parts) > 1)
    freedom = whole**2 / float((squares**2 / freedoms).sum())  # Satterthwaite's: strata are alike, and not small
    return Rows(size, math.sqrt(max(0.0, whole - luck) + whole / differ), alike, freedom)


def _stack(side: Sequence[RowErrors], name: Literal["parts", "values"]) -> Array:
    return np.stack([each.parts if name == "parts" else each.values for each in side])


def _effective(values: Array) -> float:
    """In how many rows two sides differ, one that differs little counting less; 0: in none."""
    squares = np.square(values / (np.abs(values).max() or 1.0))
    return float(squares.sum() ** 2 / np.square(squares).sum()) if squares.any() else 0.0


def _by_stratum(parts: Array, like: RowErrors) -> tuple[Array, Array]:
    """The variance of each stratum, and its degrees of freedom; of a bootstrap all in one."""
    squares = np.square(parts)
    if like.strata is None:
        return np.array([squares.sum()]), np.array([max(1.0, like.freedom)])
    count = np.bincount(like.strata)
    return np.bincount(like.strata, squares).astype(float), np.maximum(count - 1.0, 1.0)
