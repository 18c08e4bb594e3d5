"""ResNet-18 in its CIFAR shape, without batch or group norm, convolutions without bias."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, projected by a 1 x 1 convolution where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[b, inside, h, w] -> [b, outside, h / stride, w / stride]."""
        return torch.relu(self.second(torch.relu(self.first(x))) + self.shortcut(x))


def resnet18(shape: tuple[int, ...], classes: int) -> nn.Module:
    """3 x 3 stem of 64, stages 64 128 256 512 of two blocks, global average pool, linear."""
    blocks: list[nn.Module] = []
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(channels, width, stride), Block(width, width, 1)]
        channels = width
    return nn.Sequential(
        nn.Conv2d(shape[0], 64, 3, padding=1, bias=False),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, classes),
    )
