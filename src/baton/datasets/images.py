"""What the image data sets share: loading, normalising, random crops and flips. Images stay uint8 [N, C, H, W]."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from baton import rng
from baton.datasets.base import Dataset, cross_entropy
from baton.datasets.decoded import Arrays, cached
from baton.datasets.find import Found, reading

Augment = Callable[[Tensor, Tensor], Tensor]


def dataset(
    found: Found,
    files: Sequence[Path],
    decode: Callable[[Found], Arrays],
    mean: Sequence[float],
    std: Sequence[float],
    augment: Augment | None = None,
) -> Dataset:
    """Ten classes of images, decoded once and mapped into memory from then on."""
    with reading(found):
        made, content = cached(found.name, files, lambda: decode(found))
    x, y, test_x, test_y = (torch.from_numpy(array) for array in made)
    prepare = Normaliser(tuple(mean), tuple(std))
    return Dataset(x, y, test_x, test_y, 10, cross_entropy, augment, prepare, content=content)


def _channels(values: Sequence[float], x: Tensor, dtype: torch.dtype) -> Tensor:
    """[C, 1, 1] on x's device by fills, not by a copy from the host, which would wait for the device at each step."""
    return torch.cat([torch.full((1, 1, 1), value, dtype=dtype, device=x.device) for value in values])


@dataclass(frozen=True)
class Normaliser:
    """Scales stored images [b, C, H, W] to [0, 1] and normalises each channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Bytes -> what the model takes."""
        return (x.to(dtype) / 255 - _channels(self.mean, x, dtype)) / _channels(self.std, x, dtype)

    @property
    def scale(self) -> tuple[float, ...]:
        """The same as byte * scale + shift, one entry a channel."""
        return tuple(1 / (255 * std) for std in self.std)

    @property
    def shift(self) -> tuple[float, ...]:
        """See scale."""
        return tuple(-mean / std for mean, std in zip(self.mean, self.std, strict=True))


def crop_and_flip(x: Tensor, key: Tensor, pad: int = 4) -> Tensor:
    """A random crop of the image's own size after padding with zeros, then a horizontal flip of every other image.

    x [b, C, H, W], key a scalar. Each image has its own three draws; its pixels are gathered from where the crop and
    the flip find them, so that the padded image is never built.
    """
    count, channels, height, width = x.shape
    image = rng.bits(key, torch.arange(count, device=x.device))  # [b]
    down, right, flip = (rng.below(rng.bits(image, i), n) for i, n in enumerate((2 * pad + 1, 2 * pad + 1, 2)))
    row = torch.arange(height, device=x.device) + (down - pad).unsqueeze(1)  # [b, H] in the unpadded image
    across = torch.arange(width, device=x.device)
    column = torch.where(flip.unsqueeze(1) == 1, width - 1 - across, across) + (right - pad).unsqueeze(1)  # [b, W]
    inside = ((row >= 0) & (row < height)).unsqueeze(2) & ((column >= 0) & (column < width)).unsqueeze(1)
    place = row.clamp(0, height - 1).unsqueeze(2) * width + column.clamp(0, width - 1).unsqueeze(1)  # [b, H, W]
    taken = x.flatten(2).gather(2, place.flatten(1).unsqueeze(1).expand(count, channels, height * width))
    return taken.view(x.shape) * inside.unsqueeze(1)
