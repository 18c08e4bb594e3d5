"""Where Baton keeps what it can make again."""

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

from baton import private
from baton.notice import once


def keep_kernels() -> None:
    """Triton's compiled kernels stay with Baton's own, so that a later process finds them; where the user says so not.

    Where somebody else could write there they are compiled anew, for this process. To be called before Triton is
    imported: it looks where its folder is once.
    """
    if "TRITON_CACHE_DIR" not in os.environ:
        os.environ["TRITON_CACHE_DIR"] = str(own_folder("triton", "kernels") or _for_this_process())


def own_folder(name: str, what: str) -> Path | None:
    """Return a folder of the cache that nobody else can write to, made if it is not there.

    None where there is no such folder, which is told. what: lies in it.
    """
    try:
        place = private.made(cache() / name)
        why = private.open_to(place)
    except OSError:
        return None
    if why:
        once(f"{what} in the cache are not used, since {why}; they are made anew ('chmod go-w' would do)")
    return None if why else place


@functools.cache
def _for_this_process() -> Path:
    place = Path(tempfile.mkdtemp(prefix="baton-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def cache() -> Path:
    """The user's cache folder for Baton."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "baton"
