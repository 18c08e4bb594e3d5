"""Metrics of right and wrong answers. Shares of rows are percentages, 0 to 100; F1 is no share, and 0 to 1."""

from collections.abc import Callable

import torch
from torch import Tensor

from baton.errors import BadInput
from baton.metrics.base import Metric, Task, mean, one_hot, predicted, summed


def accuracy(task: Task) -> Metric:  # noqa: ARG001
    """Share of right answers, in %."""
    return mean(lambda outputs, labels: predicted(outputs) == labels, percent=True)


def top5(task: Task) -> Metric:
    """Share of rows whose class is among the five likeliest, in %."""
    if task.classes <= 5:
        raise BadInput(f"metrics: top5 of {task.classes} classes is 100 whatever is answered; above 5 is right")

    def each(outputs: Tensor, labels: Tensor) -> Tensor:
        own = outputs.gather(-1, labels.expand(outputs.shape[:2]).unsqueeze(-1))  # [L, n, 1]
        later = torch.arange(outputs.shape[-1], device=labels.device) > labels.unsqueeze(-1)  # ties: the later class
        return ((outputs > own) | ((outputs == own) & later)).sum(-1) < 5

    return mean(each, percent=True)


def sensitivity(task: Task) -> Metric:
    """Share of positives that are found (recall), in %: class 1 of two; of more, the mean over one against the rest."""

    def value(sums: Tensor) -> Tensor:
        right, true, _ = _counts(sums)
        return 100 * _macro(right / true, task.classes)

    return summed(_rows(task.classes), value, marks=_of_class(1, task))


def specificity(task: Task) -> Metric:
    """Share of negatives that are left alone, in %: class 0 of two; of more, the mean over one against the rest."""

    def value(sums: Tensor) -> Tensor:
        right, true, said = _counts(sums)
        total = true.sum(-1, keepdim=True)
        return 100 * _macro((total - true - said + right) / (total - true), task.classes)

    return summed(_rows(task.classes), value, marks=_of_class(0, task))


def balanced_accuracy(task: Task) -> Metric:
    """Share of right answers within a class, in %: the mean over the classes that are there."""

    def value(sums: Tensor) -> Tensor:
        right, true, _ = _counts(sums)
        return 100 * (right / true).nanmean(-1)

    return summed(_rows(task.classes), value, marks=_answers)


def f1(task: Task) -> Metric:
    """F1, 0 to 1: the mean over the classes that are there or are answered (macro)."""

    def value(sums: Tensor) -> Tensor:
        right, true, said = _counts(sums)
        return (2 * right / (true + said)).nanmean(-1)

    return summed(_rows(task.classes), value, marks=_answers)


def _rows(classes: int) -> Callable[[Tensor, Tensor], Tensor]:
    def rows(outputs: Tensor, labels: Tensor) -> Tensor:
        """[L, n, 3 C]: right, true and said, by class."""
        said = predicted(outputs)
        true = one_hot(labels, classes).expand(*said.shape, classes)
        right = true * (said == labels).unsqueeze(-1)
        return torch.cat([right, true, one_hot(said, classes)], -1)

    return rows


def _answers(outputs: Tensor, labels: Tensor) -> Tensor:  # noqa: ARG001
    """The class that is answered."""
    return predicted(outputs).double()


def _of_class(c: int, task: Task) -> Callable[[Tensor, Tensor], Tensor]:
    """The class that is answered, of two classes in the rows of class c alone."""
    return lambda outputs, labels: _answers(outputs, labels) * (labels == c if task.classes == 2 else 1.0)


def _counts(sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[..., 3 C] -> right, true, said [..., C]."""
    right, true, said = sums.chunk(3, -1)
    return right, true, said


def _macro(shares: Tensor, classes: int) -> Tensor:
    """Of two classes the second's; of more the mean over those that have one."""
    return shares[..., 1] if classes == 2 else shares.nanmean(-1)
