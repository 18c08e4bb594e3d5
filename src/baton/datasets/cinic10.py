"""CINIC-10: 90,000 training and as many test images, CIFAR-10's classes, 3 x 32 x 32, one file an image.

As in the paper, train/ is the training set and test/ the test set; valid/ is left alone. Any folder of this shape does.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.datasets import images
from baton.datasets.base import Dataset, Source
from baton.datasets.decoded import Arrays
from baton.datasets.find import Found, find, reading
from baton.errors import BadInput
from baton.regular import opened

CLASSES, SIDE = 10, 32
LARGEST = 1 << 20  # bytes of a file; an image has 3,072
MEAN = (0.47889522, 0.47227842, 0.43047404)
STD = (0.24205776, 0.23828046, 0.25874835)


def load(clients: int) -> Dataset:
    """From the official folders; no augmentation."""
    found = find("cinic10")
    with reading(found):
        files = [path for split in found.files for _, path in listing(split)]
    return images.dataset(found, files, decode, MEAN, STD)


def classes(split: Path) -> list[str]:
    """The names of the class folders, sorted."""
    return sorted(entry.name for entry in os.scandir(split) if entry.is_dir() and not entry.name.startswith("."))


def listing(split: Path) -> list[tuple[int, Path]]:
    """(label, file) of every image under train/ or test/: classes in order, then files by name."""
    names = classes(split)
    if len(names) != CLASSES:
        raise BadInput(f"dataset: {split}: has {len(names)} class folders ({', '.join(names)}); {CLASSES} is right")
    found = []
    for label, name in enumerate(names):
        files = sorted(
            entry.name
            for entry in os.scandir(split / name)
            if entry.name.lower().endswith((".png", ".jpg", ".jpeg")) and not entry.name.startswith(".")
        )
        if not files:
            raise BadInput(f"dataset: {split / name}: has no PNG or JPEG image")
        found += [(label, split / name / file) for file in files]
    return found


def decode(found: Found) -> Arrays:
    """All images of train/ and test/, which have the same classes."""
    train, test = found.files
    if classes(train) != classes(test):
        odd = sorted({*classes(train)} ^ {*classes(test)})
        raise BadInput(
            f"dataset: {found.folder}: train and test must have the same class folders; {odd[0]!r} is in one"
        )
    return Arrays(*_pixels(listing(train)), *_pixels(listing(test)))


def _pixels(files: Sequence[tuple[int, Path]]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [n, 3, 32, 32] and labels [n]."""
    from PIL import Image

    x = np.empty((len(files), 3, SIDE, SIDE), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd palettes, and of huge images, which are refused below
        for i, (_, path) in enumerate(files):
            try:
                with (
                    opened(path, LARGEST, field="dataset") as file,
                    Image.open(file, formats=("PNG", "JPEG")) as image,
                ):
                    size = image.size  # from the header: nothing is unpacked yet
                    if size == (SIDE, SIDE):
                        x[i] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
            except BadInput:
                raise
            except Exception as error:  # a broken image can raise anything
                raise BadInput(f"dataset: {path}: is no readable PNG or JPEG image ({error})") from None
            if size != (SIDE, SIDE):
                raise BadInput(f"dataset: {path}: is {size[0]} x {size[1]}; {SIDE} x {SIDE} is right")
    return x, np.array([label for label, _ in files], np.int64)


CINIC10 = Source(load, model="vgg9", clients=1000)
