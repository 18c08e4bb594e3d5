"""A CNN of two 5 x 5 convolutions of 32 channels and one hidden layer of 128."""

from torch import nn


def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """conv5x5 32 - pool - conv5x5 32 - pool - 128 - classes; 228,586 parameters on Fashion-MNIST.

    Kaiming-normal weights and zero biases on all but the last layer.
    """
    first, second = nn.Conv2d(shape[0], 32, 5, padding=2), nn.Conv2d(32, 32, 5, padding=2)
    hidden = nn.Linear(32 * (shape[1] // 4) * (shape[2] // 4), 128)
    for layer in (first, second, hidden):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return nn.Sequential(
        *(first, nn.ReLU(), nn.MaxPool2d(2)),
        *(second, nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), hidden, nn.ReLU(), nn.Linear(128, classes)),
    )
