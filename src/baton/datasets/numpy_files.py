"""`npz:PATH` and `npy:PATH`: arrays in NumPy's files."""

import os
import zipfile
import zlib
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import numpy as np

from baton import limits
from baton.datasets.arrays import Array, Part, made
from baton.datasets.base import Dataset, Source
from baton.datasets.table.files import settle
from baton.datasets.table.split import share
from baton.errors import BadInput, nearest
from baton.names import First
from baton.regular import opened

COPIES = 5  # of the arrays that are made until they are samples
FIELDS = ("x", "y", "owner", "test_x", "test_y", "test_owner", "weight")


def npz(
    clients: int,
    *,
    path: Annotated[str, First(settle)],
    test: float = 0.2,
    split_seed: int = 0,
    task: str = "",
    scale: str = "pooled",
) -> Dataset:
    """Arrays x and y; owner, weight, and test_x, test_y, test_owner where they are there; else a share is held back.

    scale: pooled, site or none, of columns of x [N, features] and of a regression's labels.
    """
    found = _opened(path)
    if not isinstance(found, dict):
        raise BadInput(f"dataset: {path}: holds one array; npy:{path},label=FILE.npy takes it")
    for name in ("x", "y", *(["test_y"] if "test_x" in found else [])):
        if name not in found:
            raise BadInput(f"dataset: {path}: has no array {name!r}; it has {', '.join(found)}")
    if odd := [name for name in found if name not in FIELDS]:
        raise BadInput(f"dataset: {path}: has an array {odd[0]!r}; {nearest(odd[0], FIELDS)}")
    tests = Part(found["test_x"], found["test_y"], found.get("test_owner")) if "test_x" in found else share(test)
    return made(Part(found["x"], found["y"], found.get("owner")), tests, found.get("weight"), split_seed, task, scale)


def npy(
    clients: int,
    *,
    path: Annotated[str, First(settle)],
    label: str = "",
    site: str = "",
    test: float = 0.2,
    split_seed: int = 0,
    task: str = "",
    scale: str = "pooled",
) -> Dataset:
    """One array x; label: the file of y; site: of whose they are; scale: as of npz."""
    if not label:
        raise BadInput(f"dataset: npy needs label=PATH, the file of y, as in npy:{path},label=y.npy")
    x, y, owner = (_array(each) if each else None for each in (path, label, site))
    assert x is not None
    assert y is not None
    return made(Part(x, y, owner), share(test), None, split_seed, task, scale)


def _array(path: str) -> Array:
    found = _opened(path)
    if isinstance(found, dict):
        raise BadInput(f"dataset: {path}: holds {len(found)} arrays; npz:{path} takes them")
    return found


def _size(file: BinaryIO) -> int:
    """Return the bytes of a file, unpacked if it is an archive."""
    size = os.fstat(file.fileno()).st_size
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            size = sum(each.file_size for each in archive.infolist())
    file.seek(0)
    return size


def _opened(path: str) -> "Array | dict[str, Array]":
    place = Path(os.path.expanduser(path))
    try:
        with opened(place, field="dataset") as file:
            limits.fits(COPIES * _size(file), f"dataset: {path}: is too large")
            found: Any = np.load(file, allow_pickle=False)
            return found if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"dataset: no file {path!r} in {place.parent.absolute()}") from None
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, BadInput):
            raise
        what = " ".join(str(error).split())[:150]
        raise BadInput(f"dataset: {path}: is no readable NumPy file ({what}); nothing in it was run") from None


NPZ = Source(npz, model="logistic", clients=0)
NPY = Source(npy, model="logistic", clients=0)
