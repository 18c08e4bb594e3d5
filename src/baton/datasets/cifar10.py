"""CIFAR-10: 50,000 training and 10,000 test images of ten kinds of things, 3 x 32 x 32, in the official order."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.datasets import images
from baton.datasets.base import Dataset, Source
from baton.datasets.decoded import Arrays
from baton.datasets.find import Found, find
from baton.datasets.pickled import batch
from baton.errors import BadInput
from baton.regular import opened

CLASSES, RECORDS, PIXELS = 10, 10_000, 3072
MEAN = (0.49139968, 0.48215827, 0.44653124)
STD = (0.24703233, 0.24348505, 0.26158768)

Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]  # pixels [n, 3072], labels [n]


def load(clients: int) -> Dataset:
    """From the official python batches or the binary version; random crops and flips in training."""
    found = find("cifar10")
    return images.dataset(found, found.files, decode, MEAN, STD, images.crop_and_flip)


def decode(found: Found) -> Arrays:
    """Five training batches and the test batch, in this order."""
    read = _binary if found.format == "binary batches" else _pickled
    *train, test = (read(path) for path in found.files)
    x = np.concatenate([pixels for pixels, _ in train]).reshape(-1, 3, 32, 32)
    return Arrays(x, np.concatenate([y for _, y in train]), test[0].reshape(-1, 3, 32, 32), test[1])


def _binary(path: Path) -> Batch:
    """10,000 records of a label byte and 3,072 pixel bytes; no header, so the size must be exact."""
    right = RECORDS * (1 + PIXELS)
    with opened(path, field="dataset") as file:
        size, data = os.fstat(file.fileno()).st_size, file.read(right)
    if size != right or len(data) != right:
        raise BadInput(f"dataset: {path}: has {size:,} bytes; {right:,} is right for {RECORDS:,} records")
    records = np.frombuffer(data, np.uint8).reshape(RECORDS, 1 + PIXELS)
    return records[:, 1:], _labels(path, records[:, 0].tolist())


def _pickled(path: Path) -> Batch:
    pixels, labels = batch(path, PIXELS)
    return pixels, _labels(path, labels)


def _labels(path: Path, labels: list[int]) -> NDArray[np.int64]:
    for place, label in enumerate(labels):
        if not 0 <= label < CLASSES:
            raise BadInput(f"dataset: {path}: label {label} of item {place}; 0 to {CLASSES - 1} is right")
    return np.array(labels, np.int64)


CIFAR10 = Source(load, model="vgg9", clients=500)
