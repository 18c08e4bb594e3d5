"""The point x of a quadratic objective; its output is the sample's own loss x' A x / 2 + c' x."""

import torch
from torch import Tensor, nn

from baton.datasets.quadratic import dimension, split
from baton.errors import BadInput


class Quadratic(nn.Module):
    """x starts at `start` in every coordinate (the paper: 10)."""

    def __init__(self, dim: int, start: float) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.full((dim,), start, dtype=torch.float64))

    def forward(self, sample: Tensor) -> Tensor:
        """[b, d^2 + d + 1] -> [b]."""
        hessian, c, _ = split(sample)
        x = self.x
        return ((hessian * x).sum(-1) * x / 2 + c * x).sum(-1)


def quadratic(shape: tuple[int, ...], classes: int, *, start: float = 10.0) -> nn.Module:
    """The point x itself, for the quadratic data sets only."""
    if classes:
        raise BadInput("model: 'quadratic' fits only the quadratic data sets; logistic or mlp take images")
    if not abs(start) < float("inf"):
        raise BadInput(f"model: quadratic has start={start}; a finite number is right")
    return Quadratic(dimension(shape[0]), start)
