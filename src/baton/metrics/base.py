"""What a metric is: a number for some rows of a test set, taken of many lanes at once."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor


class Task(NamedTuple):
    """What is predicted."""

    classes: int  # 0: numbers
    loss: Callable[[Tensor, Tensor], Tensor]  # (outputs [b, ...], y [b]) -> [b]


class Sums(NamedTuple):
    """A metric that sums over rows tell: those of many sites cost one pass over the rows."""

    rows: Callable[[Tensor, Tensor], Tensor]  # (outputs [L, n, ...], labels [n]) -> [L, n, k] in float64
    value: Callable[[Tensor], Tensor]  # sums over rows [..., k] -> [...]


class Metric(NamedTuple):
    """A number a lane. nan: these rows cannot tell, as of one class alone there is no AUC."""

    of: Callable[[Tensor, Tensor, Tensor | None], Tensor]  # (outputs [L, n, ...], labels [n], weight [n]) -> [L]
    best: Literal["max", "min"] = "max"
    sums: Sums | None = None
    held: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None  # (outputs, labels, classes [L, M, C]) -> [L, M]: of
    # the rows of the classes each site holds, where that is quicker than site by site


def summed(
    rows: Callable[[Tensor, Tensor], Tensor], value: Callable[[Tensor], Tensor], best: Literal["max", "min"] = "max"
) -> Metric:
    """A metric that is made of sums over rows."""

    def of(outputs: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        found = rows(outputs, labels)
        return value((found if weight is None else found * weight.double().unsqueeze(1)).sum(1))

    return Metric(of, best, Sums(rows, value))


def mean(
    each: Callable[[Tensor, Tensor], Tensor], best: Literal["max", "min"] = "max", percent: bool = False
) -> Metric:
    """The mean of one number a row: each (outputs [L, n, ...], labels [n]) -> [L, n]."""
    scale = 100.0 if percent else 1.0

    def rows(outputs: Tensor, labels: Tensor) -> Tensor:
        found = each(outputs, labels).double()
        return torch.stack([found, torch.ones_like(found)], -1)

    return summed(rows, lambda sums: scale * sums[..., 0] / sums[..., 1], best)


def predicted(outputs: Tensor) -> Tensor:
    """The class that outputs [..., classes] speak for; of one logit [..., 1], whether it is above 0."""
    return (outputs.squeeze(-1) > 0).long() if outputs.shape[-1] == 1 else outputs.argmax(-1)


def probabilities(outputs: Tensor) -> Tensor:
    """[..., classes] in float64, of logits; one logit is that of the second of two classes."""
    outputs = outputs.double()
    if outputs.shape[-1] == 1:
        return torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], -1)
    return outputs.softmax(-1)


def one_hot(index: Tensor, count: int) -> Tensor:
    """[...] -> [..., count] in float64."""
    return (index.unsqueeze(-1) == torch.arange(count, device=index.device)).double()
