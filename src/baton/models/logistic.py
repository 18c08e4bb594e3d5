"""Multinomial logistic regression: one linear layer."""

from math import prod

from torch import nn


def logistic(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Flattened input - classes."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes))
