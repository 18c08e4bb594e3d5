"""Metrics of predicted numbers: outputs [L, n] or [L, n, 1] against labels [n]."""

import torch
from torch import Tensor

from baton.metrics.base import Metric, Task, mean, summed


def mse(task: Task) -> Metric:  # noqa: ARG001
    """Mean squared error."""
    return mean(lambda outputs, labels: _error(outputs, labels).square(), "min")


def mae(task: Task) -> Metric:  # noqa: ARG001
    """Mean absolute error."""
    return mean(lambda outputs, labels: _error(outputs, labels).abs(), "min")


def r2(task: Task) -> Metric:  # noqa: ARG001
    """Share of the variance that is explained: 1 at best, 0 for the mean itself, below 0 where it is worse."""

    def rows(outputs: Tensor, labels: Tensor) -> Tensor:
        away = labels.double() - labels.double().mean()  # sums of squares of small numbers cancel less
        error = _error(outputs, labels)
        every = (error.square(), *(part.expand_as(error) for part in (away, away.square(), torch.ones_like(away))))
        return torch.stack(every, -1)

    def value(sums: Tensor) -> Tensor:
        error, first, second, count = sums.unbind(-1)
        spread = second - first.square() / count
        known = (count > 1) & (spread > 1e-12 * second)
        return torch.where(known, 1 - error / spread, torch.nan)

    return summed(rows, value, marks=lambda outputs, labels: _error(outputs, labels).square())


def _error(outputs: Tensor, labels: Tensor) -> Tensor:
    """[L, n] in float64."""
    answers = outputs.squeeze(-1) if outputs.dim() == 3 else outputs
    return answers.double() - labels.double()
