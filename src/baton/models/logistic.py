"""Multinomial logistic regression: one linear layer."""

from math import prod

from torch import nn


def logistic(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Flattened input - classes; without classes one number: linear regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), max(1, classes)))
