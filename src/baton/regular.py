"""A user's files: read only where they are regular ones, so that no pipe or device keeps anybody waiting."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from baton.errors import BadInput

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def opened(path: Path, most: int | None = None, *, field: str = "") -> Iterator[BinaryIO]:
    """A regular file of at most so many bytes, for reading; field: what begins the line where it is none.

    What the system does not let us read is an OSError, as from open.
    """
    begins = f"{field}: " if field else ""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError as error:
        raise BadInput(f"{begins}{str(path)!r} is no name of a file ({error})") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            what = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            raise BadInput(f"{begins}{path}: cannot be read: it is {what}, not a regular file")
        if most is not None and found.st_size > most:
            raise BadInput(f"{begins}{path}: has {found.st_size:,} bytes; no more than {most:,} is right")
        with open(file, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(file)


def read(path: Path, most: int | None = None, *, field: str = "") -> bytes:
    """The whole of a regular file, which has at most so many bytes also if it grows meanwhile."""
    with opened(path, most, field=field) as file:
        data = file.read() if most is None else file.read(most + 1)
    if most is not None and len(data) > most:
        raise BadInput(f"{field}: {path}: has more than {most:,} bytes".removeprefix(": "))
    return data
