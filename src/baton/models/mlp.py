"""One hidden layer, dropout before its ReLU."""

from math import prod

from torch import nn


def mlp(shape: tuple[int, ...], classes: int, *, hidden: int = 64, dropout: float = 0.5) -> nn.Module:
    """Flattened input - hidden - classes."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(shape), hidden), nn.Dropout(dropout), nn.ReLU(), nn.Linear(hidden, classes)
    )
