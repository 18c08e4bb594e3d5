"""Decoded data sets, kept as memory-mapped arrays in the user's cache folder so that a second start decodes nothing.

decoded/<name>-<fingerprint of the source files>/ appears whole, by one rename; checksums tell when it is damaged.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.datasets.find import cache

VERSION = 1  # of what decoding gives; raised when it changes
KEPT = 3  # decoded copies of one data set, for those who have it in several places


class Arrays(NamedTuple):
    """A data set of images as it is stored."""

    x: NDArray[np.uint8]  # [N, C, H, W]
    y: NDArray[np.int64]  # [N]
    test_x: NDArray[np.uint8]  # [n, C, H, W]
    test_y: NDArray[np.int64]  # [n]


def cached(name: str, files: Sequence[Path], decode: Callable[[], Arrays]) -> Arrays:
    """What `decode` gives, from the cache if these very files were decoded before; without one if it cannot be kept."""
    folder = cache() / "decoded" / f"{name}-{fingerprint(files)}"
    found = _read(folder)
    if found is not None:
        return found
    made = decode()
    kept = _read(folder) if _write(folder, made) else None
    return kept or Arrays(*(np.require(getattr(made, field), None, ["C", "W"]) for field in Arrays._fields))


def fingerprint(files: Sequence[Path]) -> str:
    """16 hex digits of the files' places, sizes and times of change."""
    digest = hashlib.sha256(f"{VERSION}".encode())
    for path in files:
        stat = os.stat(path)
        digest.update(f"\n{path}\0{stat.st_size}\0{stat.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def _checksum(path: Path) -> int:
    return zlib.crc32(np.memmap(path, np.uint8, "r").data)


def _checksums(folder: Path) -> list[int]:
    with ThreadPoolExecutor(len(Arrays._fields)) as pool:  # crc32 lets go of the interpreter's lock
        return list(pool.map(_checksum, (folder / f"{field}.npy" for field in Arrays._fields)))


def _read(folder: Path) -> Arrays | None:
    """The arrays kept here, if they are what was written."""
    try:
        if json.loads((folder / "checksums.json").read_text()) != _checksums(folder):
            return None
        # Mode "c": writing to a tensor of these would change its own copy of the page, never the file.
        found = Arrays(*(np.load(folder / f"{field}.npy", "c", allow_pickle=False) for field in Arrays._fields))
        os.utime(folder)
    except (OSError, ValueError, EOFError):
        return None
    return found


def _write(folder: Path, arrays: Arrays) -> bool:
    """Whether the arrays now lie in the cache."""
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for field in Arrays._fields:
            np.save(temporary / f"{field}.npy", getattr(arrays, field), allow_pickle=False)
        (temporary / "checksums.json").write_text(json.dumps(_checksums(temporary)))
        if folder.exists():  # damaged, or another process was as fast
            shutil.rmtree(folder)
        os.rename(temporary, folder)
        _prune(folder)
    except OSError:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        return False
    return True


def _prune(kept: Path) -> None:
    """Remove the longest unused copies of this data set, and what crashes left half written."""
    name = kept.name.rpartition("-")[0]
    copies = sorted(kept.parent.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    left = [path for path in kept.parent.glob(f".{name}-*") if path.stat().st_mtime < time.time() - 86_400]
    for path in (*copies[KEPT:], *left):
        shutil.rmtree(path, ignore_errors=True)
