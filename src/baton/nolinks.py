"""Files and folders of a store. A store may be a stranger's: nothing in it is followed through a link."""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from baton.errors import BadInput


def is_file(path: Path) -> bool:
    """Return whether it is a regular file itself, not a link to one."""
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Return whether it is a folder itself, not a link to one."""
    return stat.S_ISDIR(_mode(path))


def is_link(path: Path) -> bool:
    """Return whether it is a symbolic link, wherever that leads."""
    return stat.S_ISLNK(_mode(path))


def _mode(path: Path) -> int:
    """Return what lstat says of its kind; 0 where nothing is there, or it may not be looked at."""
    try:
        return os.lstat(path).st_mode
    except (OSError, ValueError):
        return 0


def make_folder(root: Path, *names: str) -> Path:
    """Return root/names..., each made where it is not there; refuse what is no folder itself in any of the places.

    root is what the user typed, and may be a link.
    """
    root.mkdir(parents=True, exist_ok=True)
    place = root
    for name in names:
        place = place / name
        if not is_folder(place):
            with suppress(FileExistsError):
                place.mkdir()
            if not is_folder(place):
                what = "a link" if is_link(place) else "no folder"
                raise BadInput(f"runs: {str(place)!r} is {what}; 'baton repair' moves it aside")
    return place


def names_in(root: Path, *names: str) -> list[str]:
    """Return what lies in root/names..., sorted; nothing where a folder is missing, closed to us or a link."""
    place = root
    for name in names:
        place = place / name
        if not is_folder(place):
            return []
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []


def delete(path: Path) -> None:
    """Delete a file, a link by its own name, or a folder with what is in it; what cannot be deleted stays."""
    with suppress(OSError):
        if is_folder(path):
            shutil.rmtree(path, ignore_errors=True)  # links in it go, and are not followed
        else:
            path.unlink(missing_ok=True)
