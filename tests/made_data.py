"""Small made data sets in the official forms, for tests."""

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
IDX = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
BATCHES = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]


def made(count: int, shape: tuple[int, ...], seed: int = 0) -> tuple[Bytes, Bytes]:
    """Noisy images [count, ...] and their labels 0 1 2 ... 9 0 1 ...; bright bands across spell the label in binary."""
    random = np.random.default_rng(seed)
    y = (np.arange(count) % 10).astype(np.uint8)
    x = random.integers(0, 100, (count, *shape), dtype=np.uint8)
    band = shape[-2] // 4 if len(shape) > 1 else 0
    for k in range(4 if band else 0):
        x[((y + 1) >> k & 1) == 1, ..., k * band : (k + 1) * band, :] += 120
    return x, y


def idx_bytes(array: Bytes) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, train: int = 40, test: int = 20, packed: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = [*made(train, (28, 28), 1), *made(test, (28, 28), 2)]
    for name, array in zip(IDX, arrays, strict=True):
        data = idx_bytes(array)
        (folder / f"{name}{'.gz' if packed else ''}").write_bytes(gzip.compress(data, 1) if packed else data)


def pickled(x: Bytes, y: list[int], protocol: int = 2) -> bytes:
    """A batch as the official files hold it, pickled by today's Python."""
    rows = np.ascontiguousarray(x.reshape(len(x), -1))
    batch = {b"batch_label": b"training batch", b"labels": y, b"data": rows, b"filenames": [b"a.png", b""]}
    return pickle.dumps(batch, protocol)


def write_cifar(root: Path, count: int = 20, form: str = "py") -> None:
    """`count` records in each of six batches."""
    folder = root / f"cifar-10-batches-{form}"
    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(BATCHES):
        x, y = made(count, (3, 32, 32), k)
        if form == "py":
            (folder / name).write_bytes(pickled(x, y.tolist()))
        else:
            np.concatenate([y[:, None], x.reshape(count, -1)], 1).tofile(folder / f"{name}.bin")


def write_folders(folder: Path, train: int = 20, test: int = 10, ending: str = "png") -> None:
    """An image folder as CINIC-10's."""
    from PIL import Image

    for split, count in (("train", train), ("test", test)):
        x, y = made(count, (3, 32, 32), count)
        for i in range(count):
            path = folder / split / NAMES[y[i]] / f"{i:05d}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(x[i].transpose(1, 2, 0)).save(path)


def write_all(root: Path, train: int = 40, test: int = 20) -> None:
    """All four data sets, small."""
    write_idx(root / "mnist", train, test)
    write_idx(root / "fashion-mnist", train, test)
    write_cifar(root, max(10, train // 5))
    write_folders(root / "cinic-10", train, test)
