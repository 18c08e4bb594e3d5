"""LeNet-5 with ReLU and max-pooling."""

import torch
from torch import nn


def lenet5(shape: tuple[int, ...], classes: int) -> nn.Module:
    """conv5x5 6 - pool - conv5x5 16 - pool - 120 - 84 - classes; 44,426 parameters on MNIST."""
    features = nn.Sequential(
        nn.Conv2d(shape[0], 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)
    )
    width = features(torch.zeros(1, *shape)).numel()
    return nn.Sequential(
        features,
        nn.Flatten(),
        nn.Linear(width, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )
