"""Metrics of probabilities: how well they rank (AUC), and how true they are (loss, Brier score, calibration)."""

import torch
from torch import Tensor

from baton.errors import BadInput
from baton.metrics.base import Metric, Task, log_odds, mean, nan_for_nan, one_hot, predicted, probabilities, summed


def loss(task: Task) -> Metric:
    """The data set's own loss, the mean over rows."""

    def each(outputs: Tensor, labels: Tensor) -> Tensor:
        every = labels.expand(outputs.shape[:2])
        return task.loss(outputs.flatten(0, 1), every.flatten()).view(every.shape)

    return mean(each, "min")


def brier(task: Task) -> Metric:
    """Squared distance of the probabilities from the truth, 0 to 1; of more than two classes the sum, 0 to 2."""

    def each(outputs: Tensor, labels: Tensor) -> Tensor:
        away = (probabilities(outputs) - one_hot(labels, task.classes)).square()
        return away[..., 1] if task.classes == 2 else away.sum(-1)

    return mean(each, "min")


def calibration(task: Task, *, bins: int = 15) -> Metric:  # noqa: ARG001
    """Expected calibration error, 0 to 1: how far confidence is from the share of right answers, in bins of it."""
    if bins < 1:
        raise BadInput(f"metrics: calibration:bins={bins}; at least 1 is right")

    def rows(outputs: Tensor, labels: Tensor) -> Tensor:
        confidence = probabilities(outputs).amax(-1)  # [L, n]
        over = confidence - (predicted(outputs) == labels).double()
        place = (confidence * bins).ceil().long().clamp(1, bins) - 1  # (0, 1/bins], (1/bins, 2/bins], ...
        return torch.cat([one_hot(place, bins) * over.unsqueeze(-1), torch.ones_like(over).unsqueeze(-1)], -1)

    return summed(rows, lambda sums: sums[..., :-1].abs().sum(-1) / sums[..., -1], "min")


def auc(task: Task) -> Metric:
    """Area under the ROC curve, 0 to 1: class 1 of two; of more, the mean over one against the rest."""
    every = [1] if task.classes == 2 else range(task.classes)

    def of(outputs: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        odds, w = log_odds(outputs), torch.ones_like(labels).double() if weight is None else weight.double()
        return torch.stack([_area(odds[..., c], labels == c, w) for c in every]).nanmean(0)

    def held(outputs: Tensor, labels: Tensor, classes: Tensor) -> Tensor:
        odds, own = log_odds(outputs), classes.double()  # [L, M, C]
        counts = one_hot(labels, task.classes).sum(0)  # [C]
        areas = []
        for c in every:
            wins = _wins(odds[..., c], labels, c, task.classes)  # [L, C]: against each other class
            others = own * (torch.arange(task.classes) != c)
            pairs = counts[c] * (others @ counts)  # [L, M]
            found = torch.einsum("lmd,ld->lm", others, wins) / pairs
            areas.append(torch.where((own[..., c] > 0) & (pairs > 0), found, torch.nan))
        return torch.stack(areas).nanmean(0)

    return nan_for_nan(Metric(of, "max", held=held, ranks=log_odds))


def _area(score: Tensor, positive: Tensor, weight: Tensor) -> Tensor:
    """P(a positive's score is above a negative's), ties counting half: score [L, n] -> [L]; nan without either."""
    ranked, order = score.sort(1)
    for_, against = ((weight * side).expand_as(score).gather(1, order) for side in (positive, ~positive))
    below = torch.cat([against.new_zeros(len(score), 1), against.cumsum(1)], 1)  # [L, n + 1]
    beaten = sum(below.gather(1, torch.searchsorted(ranked, ranked, right=right)) for right in (False, True))
    assert isinstance(beaten, Tensor)
    area = (for_ * beaten / 2).sum(1) / (for_.sum(1) * against.sum(1))
    return area.masked_fill(score.isnan().any(1), torch.nan)


def _wins(score: Tensor, labels: Tensor, c: int, classes: int) -> Tensor:
    """How many pairs (a row of class c, a row of class d) are in order, ties counting half: [L, C] by d."""
    mine, found = score[:, labels == c].contiguous(), []
    for d in range(classes):
        theirs = score[:, labels == d].sort(1).values
        sides = [torch.searchsorted(theirs, mine, right=right).double().sum(1) for right in (False, True)]
        lost = mine.isnan().any(1) | theirs.isnan().any(1)
        found.append(((sides[0] + sides[1]) / 2).masked_fill(lost, torch.nan))
    return torch.stack(found, 1)
