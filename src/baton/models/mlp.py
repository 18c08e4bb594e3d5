"""One hidden layer, dropout before its ReLU."""

from math import prod

from torch import nn

from baton.errors import BadInput


def mlp(shape: tuple[int, ...], classes: int, *, hidden: int = 64, dropout: float = 0.5) -> nn.Module:
    """Flattened input - hidden - classes; without classes one number."""
    if hidden < 1:
        raise BadInput(f"model: mlp has hidden={hidden}; at least 1 is right")
    if not 0 <= dropout < 1:
        raise BadInput(f"model: mlp has dropout={dropout}; 0 <= dropout < 1 is right")
    first, last = nn.Linear(prod(shape), hidden), nn.Linear(hidden, max(1, classes))
    return nn.Sequential(nn.Flatten(), first, nn.Dropout(dropout), nn.ReLU(), last)
