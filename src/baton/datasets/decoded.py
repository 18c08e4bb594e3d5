"""Decoded data sets, kept as memory-mapped arrays in the user's cache folder so that a second start decodes nothing.

decoded/<name>-<fingerprint of the source files>/ appears whole, by one rename; checksums tell when it is damaged.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from baton import private
from baton.caches import own_folder
from baton.datasets.content import of_arrays
from baton.notice import once

VERSION = 3  # of what decoding gives; raised when it changes
KEPT = 3  # decoded copies of one data set, for those who have it in several places


class Arrays(NamedTuple):
    """A data set of images as it is stored."""

    x: NDArray[np.uint8]  # [N, C, H, W]
    y: NDArray[np.int64]  # [N]
    test_x: NDArray[np.uint8]  # [n, C, H, W]
    test_y: NDArray[np.int64]  # [n]


A = TypeVar("A", bound=tuple[NDArray[Any], ...])  # Arrays, or another NamedTuple of arrays


class Kept(NamedTuple, Generic[A]):
    """A decoded data set."""

    arrays: A
    content: str  # what tells it from another, however its files were packed


def cached(
    name: str,
    files: Sequence[Path],
    decode: Callable[[], A],
    kind: type[Any] = Arrays,
    content: Callable[[A], str] | None = None,
    how: str = "",
    most: int = KEPT,
) -> Kept[A]:
    """What `decode` gives, from the cache if these very files were decoded before; without one if it cannot be kept.

    kind: of the arrays; content: of them, where it is not all of them; how: what else decoding depends on; most:
    copies to keep.
    """
    place = own_folder("decoded", "decoded samples")
    folder = place / f"{name}-{fingerprint(files, how)}" if place else None
    found = _read(folder, kind) if folder else None
    if found is not None:
        return found
    made = decode()
    told = content(made) if content else of_arrays(made)
    if folder and _write(folder, Kept(made, told), most) and (kept := _read(folder, kind)):
        return kept
    return Kept(kind(*(np.require(array, None, ["C", "W"]) for array in made)), told)


def fingerprint(files: Sequence[Path], how: str = "") -> str:
    """16 hex digits of the files' places, sizes and times of change; a time can be set back, the inode's cannot."""
    digest = hashlib.sha256(f"{VERSION}{how}".encode())
    for path in files:
        stat = os.stat(path)
        own = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
        digest.update("\0".join(map(str, (f"\n{path}", *own))).encode())
    return digest.hexdigest()[:16]


def _checksum(path: Path) -> str:
    return hashlib.sha256(np.memmap(path, np.uint8, "r").data).hexdigest()


def _checksums(folder: Path, content: str, kind: type[Any]) -> list[str]:
    with ThreadPoolExecutor(len(kind._fields)) as pool:  # hashlib lets go of the interpreter's lock
        arrays = pool.map(_checksum, (folder / f"{field}.npy" for field in kind._fields))
        return [*arrays, hashlib.sha256(content.encode()).hexdigest()]


def _read(folder: Path, kind: type[Any] = Arrays) -> Kept[Any] | None:
    """The arrays kept here, if they are what was written, and nobody else can have written them."""
    try:
        names = ("checksums.json", *(f"{field}.npy" for field in kind._fields))
        why = private.open_to(folder, above=0)
        if why or not all(private.is_own(folder / name) for name in names):
            once(f"decoded samples in the cache are not used, since {why or f'{folder} has files of another user'}")
            return None
        said = json.loads((folder / "checksums.json").read_text())
        content = str(said["content"])
        if said["sha256"] != _checksums(folder, content, kind):
            return None
        # Mode "c": writing to a tensor of these would change its own copy of the page, never the file.
        found = kind(*(np.load(folder / f"{field}.npy", "c", allow_pickle=False) for field in kind._fields))
        os.utime(folder)
    except (OSError, ValueError, EOFError, TypeError, KeyError):
        return None
    return Kept(found, content)


def _write(folder: Path, made: Kept[Any], most: int) -> bool:
    """Whether the arrays now lie in the cache."""
    temporary = None
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for field, array in made.arrays._asdict().items():
            np.save(temporary / f"{field}.npy", array, allow_pickle=False)
        said = {"content": made.content, "sha256": _checksums(temporary, made.content, type(made.arrays))}
        (temporary / "checksums.json").write_text(json.dumps(said))
        if folder.exists():  # damaged, or another process was as fast
            shutil.rmtree(folder)
        os.rename(temporary, folder)
        _prune(folder, most)
    except OSError:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        return False
    return True


def _prune(kept: Path, most: int) -> None:
    """Remove the longest unused copies of this data set, and what crashes left half written."""
    name = kept.name.rpartition("-")[0]
    copies = sorted(kept.parent.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime, reverse=True)
    left = [path for path in kept.parent.glob(f".{name}-*") if path.stat().st_mtime < time.time() - 86_400]
    for path in (*copies[most:], *left):
        shutil.rmtree(path, ignore_errors=True)
