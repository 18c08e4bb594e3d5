"""F of logistic regression in closed form: what finding its minimum takes, several times faster than by autograd.

A point is the matrix [classes, p] of weights, with the bias as a last column where there is one.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

from baton.constants.objective import Group, Objective
from baton.datasets.base import prepared

KEPT_BYTES = 2 << 30  # inputs up to this size are kept in float64, larger ones made anew each time
BLOCK = 4096  # samples


def inputs(objective: Objective, places: Tensor) -> Tensor:
    """z: what the linear layer sees of samples [n], with a 1 for the bias: [n, p]."""
    flat = prepared(objective.data, objective.table.x[places], torch.float64).flatten(1)
    return torch.cat([flat, flat.new_ones(len(flat), 1)], 1) if len(objective.shapes) > 1 else flat


class Regression:
    """The weighted mean of the losses, plus the weight decay, as functions of a point x [d]."""

    def __init__(self, objective: Objective, group: Group) -> None:
        self.objective, self.places, self.weight = objective, group.places[0], group.weight[0]
        self.label = objective.table.y[self.places]
        self.classes = objective.data.classes
        size = len(self.places) * objective.size // self.classes * 8
        self._kept = list(self._made()) if size <= KEPT_BYTES else None
        self._gram: tuple[Tensor, Tensor] | None = None
        self._at: tuple[Tensor, Tensor] | None = None  # a point, and the classes' probabilities there [n, classes]

    def _made(self) -> Iterator[Tensor]:
        return (inputs(self.objective, at) for at in torch.split(self.places, BLOCK))

    def _blocks(self, *rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Inputs block by block, with the same block of each of `rows` [n, ...]."""
        return zip(self._kept or self._made(), *(torch.split(row, BLOCK) for row in rows), strict=True)

    def _matrix(self, x: Tensor) -> Tensor:
        """The point as [classes, p]."""
        biased = len(self.objective.shapes) > 1
        if not biased:
            return x.view(self.classes, -1)
        return torch.cat([x[: -self.classes].view(self.classes, -1), x[-self.classes :].unsqueeze(1)], 1)

    def _point(self, matrix: Tensor) -> Tensor:
        """And back."""
        if len(self.objective.shapes) == 1:
            return matrix.flatten()
        return torch.cat([matrix[:, :-1].flatten(), matrix[:, -1]])

    def _logits(self, x: Tensor) -> Tensor:
        matrix = self._matrix(x)
        return torch.cat([z @ matrix.T for (z,) in self._blocks()])

    def _probabilities(self, x: Tensor) -> Tensor:
        if self._at is None or self._at[0] is not x:
            self._at = x, torch.softmax(self._logits(x), 1)
        return self._at[1]

    def _pulled(self, rows: Tensor) -> Tensor:
        """sum over samples of weight row z', as a point."""
        weighted = rows * self.weight.unsqueeze(1)
        parts = (row.T @ z for z, row in self._blocks(weighted))
        return self._point(sum(parts, start=torch.zeros_like(weighted[:1, :1])))

    def value(self, x: Tensor) -> float:
        """F."""
        each = functional.cross_entropy(self._logits(x), self.label, reduction="none")
        return float((each * self.weight).sum() + self.objective.decay / 2 * x.square().sum())

    def gradient(self, x: Tensor) -> Tensor:
        """sum of weight (p - e_y) z'."""
        rows = self._probabilities(x) - functional.one_hot(self.label, self.classes)
        return self._pulled(rows) + self.objective.decay * x

    def product(self, x: Tensor, v: Tensor) -> Tensor:
        """sum of weight (diag(p) - p p') V z z'."""
        p = self._probabilities(x)
        rows = p * self._logits(v)
        return self._pulled(rows - p * rows.sum(1, keepdim=True)) + self.objective.decay * v

    def precondition(self, x: Tensor, r: Tensor) -> Tensor:
        """r divided by something like the Hessian: a Z'Z + weight_decay for every class, a the mean of p (1 - p)."""
        if self._gram is None:
            weighted = self._blocks(self.weight)
            gram = sum((z.T @ (z * w.unsqueeze(1)) for z, w in weighted), start=torch.zeros_like(r[:1]))
            value, vector = torch.linalg.eigh(gram)
            self._gram = value.clamp(min=0), vector
        value, vector = self._gram
        p = self._probabilities(x)
        share = float((self.weight.unsqueeze(1) * p * (1 - p)).sum()) / self.classes
        scale = share * value + self.objective.decay
        scale = scale.clamp(min=1e-9 * float(scale.max()))
        return self._point((self._matrix(r) @ vector / scale) @ vector.T)

    def told_apart(self, x: Tensor) -> bool:
        """Whether every sample's own label has more than half: then x separates the data."""
        return bool((self._probabilities(x).gather(1, self.label.unsqueeze(1)) > 0.5).all())
