"""A user's files: read only where they are regular ones, so that no pipe or device keeps anybody waiting."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from baton import limits
from baton.errors import BadInput

COPIES = 6  # of what is read whole, that are made while it is looked at
SMALL = 1 << 26  # bytes that are always there
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def opened(path: Path, most: int | None = None, *, field: str = "", links: bool = True) -> Iterator[BinaryIO]:
    """A regular file of at most so many bytes, for reading; field: what begins the line where it is none.

    links: follow one in the place of the file. What the system does not let us read is an OSError, as from open.
    """
    begins = f"{field}: " if field else ""
    how = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | (0 if links else os.O_NOFOLLOW)
    try:
        file = os.open(path, how)
    except ValueError as error:
        raise BadInput(f"{begins}{str(path)!r} is no name of a file ({error})") from None
    except OSError as error:
        if links or error.errno != errno.ELOOP:
            raise
        raise BadInput(f"{begins}{path}: cannot be read: it is a link, not a regular file") from None
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


def read(path: Path, most: int | None = None, *, field: str = "", links: bool = True) -> bytes:
    """The whole of a regular file, which has at most so many bytes also if it grows meanwhile."""
    with opened(path, most, field=field, links=links) as file:
        size = os.fstat(file.fileno()).st_size
        if size > SMALL:
            limits.fits(COPIES * size, f"{field}: {path}: is too large".removeprefix(": "))
        data = file.read() if most is None else file.read(most + 1)
    if most is not None and len(data) > most:
        raise BadInput(f"{field}: {path}: has more than {most:,} bytes".removeprefix(": "))
    return data
