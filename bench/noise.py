"""Images of noise in the shapes of the data sets, for machines that do not have their files."""

import torch

from baton.datasets.base import Dataset, cross_entropy
from baton.datasets.cifar10 import MEAN, STD
from baton.datasets.images import Augment, Normaliser, crop_and_flip


def mnist(clients: int) -> Dataset:  # noqa: ARG001
    """60,000 training images of 1 x 28 x 28."""
    return _noise((60_000, 1, 28, 28), (0.1307,), (0.3081,))


def fashion_mnist(clients: int) -> Dataset:
    """The same."""
    return mnist(clients)


def cifar10(clients: int) -> Dataset:  # noqa: ARG001
    """50,000 of 3 x 32 x 32, cropped and flipped in training."""
    return _noise((50_000, 3, 32, 32), MEAN, STD, crop_and_flip)


def one_each(clients: int) -> Dataset:
    """As many images of 1 x 28 x 28 as there are clients."""
    data = _noise((500, 1, 28, 28), (0.1307,), (0.3081,))
    times = -(-clients // len(data.x))
    return data._replace(x=data.x.repeat(times, 1, 1, 1)[:clients], y=data.y.repeat(times)[:clients])


def _noise(
    shape: tuple[int, ...], mean: tuple[float, ...], std: tuple[float, ...], augment: Augment | None = None
) -> Dataset:
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, shape, dtype=torch.uint8, generator=draw)
    y = torch.arange(len(x)) % 10
    prepare = Normaliser(mean, std)
    return Dataset(x, y, x[:10_000], y[:10_000], classes=10, loss=cross_entropy, augment=augment, prepare=prepare)
