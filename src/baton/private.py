"""Whether a folder of a cache is one's own: to load compiled code that another wrote would be running it.

What root owns is as good as one's own: root can do as it likes with the process anyway, and an image that was built by
root may bring its library.
"""

import os
import stat
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH
ABOVE = 2  # folders over the library's that are looked at too: Baton's own, and the user's cache folder


def made(folder: Path) -> Path:
    """The folder by its own name, without links, made if it is not there: for nobody else to write to."""
    place = folder.resolve()
    for each in reversed([place, *place.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)
    return place


def open_to(folder: Path, above: int = ABOVE) -> str:
    """Who else could put something there, and in which folder; '' where nobody could.

    above: folders over it that are looked at too.
    In a folder as /tmp everybody may write, but nobody may rename what is another's: such a one may lie above.
    """
    for step, place in enumerate([folder, *folder.parents][: 1 + above]):
        found = place.stat()
        if not _owned(found):
            return f"{place} belongs to another user"
        if found.st_mode & OTHERS and not (step and found.st_mode & stat.S_ISVTX):
            return f"{place} is writable by others"
    return ""


def content(path: Path) -> bytes | None:
    """Of a file that nobody else can have written; None of any other."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(file)
        return opened.read() if stat.S_ISREG(found.st_mode) and _owned(found) and not found.st_mode & OTHERS else None


def is_own(path: Path) -> bool:
    """Return whether it is a regular file of one's own, in a folder that is."""
    found = os.lstat(path)
    return stat.S_ISREG(found.st_mode) and _owned(found)


def _owned(found: os.stat_result) -> bool:
    return found.st_uid in (os.geteuid(), 0)
