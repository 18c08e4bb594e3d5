"""What a metric is: a number for some rows of a test set, taken of many lanes at once."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

End = Literal["max", "min"]  # of a metric: the better one


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
    best: End | None = None  # the better end; None: it does not say, and nothing is compared by it
    sums: Sums | None = None
    held: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None  # (outputs, labels, classes [L, M, C]) -> [L, M]: of
    # the rows of the classes each site holds, where that is quicker than site by site
    each: Callable[[Tensor, Tensor], Tensor] | None = None  # (outputs [L, n, ...], labels [n]) -> [L, n], where it is
    # the mean of a number a row
    ranks: Callable[[Tensor], Tensor] | None = None  # outputs [L, n, ...] -> [L, n, C], where it is an AUC: the scores
    marks: Callable[[Tensor, Tensor], Tensor] | None = None  # (outputs, labels) -> [L, n], where a bootstrap shows what
    # other rows would do: anything by which two models' answers to a row differ


def nan_for_nan(metric: Metric) -> Metric:
    """Return the metric with nan wherever an output of the rows it looks at is nan."""
    of, sums, held = metric.of, metric.sums, metric.held

    def sound_of(outputs: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        lost = lost_rows(outputs) if weight is None else lost_rows(outputs) & (weight > 0)
        return of(outputs, labels, weight).masked_fill(lost.any(1), torch.nan)

    def sound_rows(outputs: Tensor, labels: Tensor) -> Tensor:
        assert sums is not None
        return sums.rows(outputs, labels).masked_fill(lost_rows(outputs).unsqueeze(-1), torch.nan)

    def sound_held(outputs: Tensor, labels: Tensor, classes: Tensor) -> Tensor:
        assert held is not None
        lost = lost_rows(outputs).double() @ one_hot(labels, classes.shape[-1]) > 0  # [L, C]
        return held(outputs, labels, classes).masked_fill((classes & lost.unsqueeze(1)).any(-1), torch.nan)

    return metric._replace(
        of=sound_of, sums=sums and sums._replace(rows=sound_rows), held=sound_held if held is not None else None
    )


def lost_rows(outputs: Tensor) -> Tensor:
    """Return which rows of outputs [L, n, ...] have a nan: [L, n]."""
    lost = outputs.isnan()
    return lost.flatten(2).any(-1) if lost.dim() > 2 else lost


def summed(
    rows: Callable[[Tensor, Tensor], Tensor],
    value: Callable[[Tensor], Tensor],
    best: End = "max",
    marks: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Metric:
    """A metric that is made of sums over rows."""

    def of(outputs: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        found = rows(outputs, labels)
        return value((found if weight is None else found * weight.double().unsqueeze(1)).sum(1))

    return nan_for_nan(Metric(of, best, Sums(rows, value), marks=marks))


def mean(each: Callable[[Tensor, Tensor], Tensor], best: End = "max", percent: bool = False) -> Metric:
    """The mean of one number a row: each (outputs [L, n, ...], labels [n]) -> [L, n]."""
    scale = 100.0 if percent else 1.0

    def rows(outputs: Tensor, labels: Tensor) -> Tensor:
        found = each(outputs, labels).double()
        return torch.stack([found, torch.ones_like(found)], -1)

    found = summed(rows, lambda sums: scale * sums[..., 0] / sums[..., 1], best)
    return found._replace(each=lambda outputs, labels: scale * each(outputs, labels).double())


def predicted(outputs: Tensor) -> Tensor:
    """The class that outputs [..., classes] speak for; of one logit [..., 1], whether it is above 0."""
    return (outputs.squeeze(-1) > 0).long() if outputs.shape[-1] == 1 else outputs.argmax(-1)


def probabilities(outputs: Tensor) -> Tensor:
    """[..., classes] in float64, of logits; one logit is that of the second of two classes."""
    outputs = outputs.double()
    if outputs.shape[-1] == 1:
        return torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], -1)
    return outputs.softmax(-1)


def log_odds(outputs: Tensor) -> Tensor:
    """Return [..., classes] in float64: for each class, how far its logit is above all others together.

    Their order is that of the probabilities, but it is kept where those round to 0 or 1.
    """
    outputs = outputs.double()
    if outputs.shape[-1] <= 2:
        margin = outputs[..., -1] - (outputs[..., 0] if outputs.shape[-1] == 2 else 0)
        return torch.stack([-margin, margin], -1).float().double()  # equal odds stay equal, whatever was rounded
    top = outputs.argmax(-1, keepdim=True)
    peak = outputs.gather(-1, top)
    share = (outputs - peak).exp()
    others = (share.sum(-1, keepdim=True) - share).log() + peak
    below = outputs.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True)  # the top class would cancel above
    return (outputs - others.scatter(-1, top, below)).float().double()


def one_hot(index: Tensor, count: int) -> Tensor:
    """[...] -> [..., count] in float64."""
    return (index.unsqueeze(-1) == torch.arange(count, device=index.device)).double()
