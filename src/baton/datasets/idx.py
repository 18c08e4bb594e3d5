"""IDX files, the form of MNIST and Fashion-MNIST: a header of big-endian sizes, then bytes; gzipped or not."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from baton.datasets.decoded import Arrays
from baton.datasets.find import Found
from baton.errors import BadInput
from baton.regular import opened

SIDE, CLASSES = 28, 10
LARGEST = 1_000_000  # items in a file: ten times any set of this kind, and little enough to hold in memory
BYTES = 16 + LARGEST * SIDE * SIDE


def content(path: Path, dimensions: int) -> tuple[bytes, tuple[int, ...]]:
    """The whole file, unpacked, and the sizes its header gives; its length is what the header says."""
    try:
        with opened(path, BYTES, field="dataset") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file = gzip.GzipFile(fileobj=raw) if packed else raw
            header = file.read(4 + 4 * dimensions)
            sizes = _sizes(path, header, dimensions)
            data = file.read(math.prod(sizes) + 1)  # one more than is right: no file unpacks without end
    except (EOFError, zlib.error, OSError) as error:
        raise BadInput(f"dataset: {path}: cannot be read ({error}); copy or download the file again") from None
    if len(data) != math.prod(sizes):
        held = f"only {len(data):,}" if len(data) < math.prod(sizes) else "more"
        shape = " x ".join(f"{size:,}" for size in sizes)
        raise BadInput(f"dataset: {path}: holds {held} bytes of data; its header says {shape} = {math.prod(sizes):,}")
    return header + data, sizes


def _sizes(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    if len(header) < 4 or header[:2] != b"\0\0":
        raise BadInput(f"dataset: {path}: starts with {header[:4].hex()!r}, so it is no IDX file")
    if header[2] != 8:
        raise BadInput(f"dataset: {path}: its IDX type is 0x{header[2]:02x}; 0x08, unsigned bytes, is right")
    if header[3] != dimensions:
        raise BadInput(f"dataset: {path}: has {header[3]} dimensions; {dimensions} is right")
    if len(header) < 4 + 4 * dimensions:
        raise BadInput(f"dataset: {path}: ends within its header")
    sizes: tuple[int, ...] = struct.unpack(f">{dimensions}I", header[4:])
    if not 1 <= sizes[0] <= LARGEST:
        raise BadInput(f"dataset: {path}: its header says {sizes[0]:,} items; 1 to {LARGEST:,} is right")
    if dimensions == 3 and sizes[1:] != (SIDE, SIDE):
        raise BadInput(f"dataset: {path}: its images are {sizes[1]} x {sizes[2]}; {SIDE} x {SIDE} is right")
    return sizes


def images(path: Path) -> NDArray[np.uint8]:
    """Images [N, 1, 28, 28]."""
    data, sizes = content(path, 3)
    return np.frombuffer(data, np.uint8, offset=16).reshape(sizes[0], 1, SIDE, SIDE)


def labels(path: Path) -> NDArray[np.int64]:
    """Labels [N], each 0 to 9."""
    found = np.frombuffer(content(path, 1)[0], np.uint8, offset=8)
    if found.max() >= CLASSES:
        place = int((found >= CLASSES).argmax())
        raise BadInput(f"dataset: {path}: label {found[place]} of item {place}; 0 to {CLASSES - 1} is right")
    return found.astype(np.int64)


def decode(found: Found) -> Arrays:
    """The four files: training images and labels, test images and labels."""
    train, train_labels, test, test_labels = found.files
    arrays = Arrays(images(train), labels(train_labels), images(test), labels(test_labels))
    for x, y, path in ((arrays.x, arrays.y, train_labels), (arrays.test_x, arrays.test_y, test_labels)):
        if len(x) != len(y):
            raise BadInput(f"dataset: {path}: holds {len(y):,} labels; its images are {len(x):,}")
    return arrays
