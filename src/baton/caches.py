"""Where Baton keeps what it can make again."""

import os
from pathlib import Path


def keep_kernels() -> None:
    """Triton's compiled kernels stay with Baton's own, so that a later process finds them; where the user says so not.

    To be called before Triton is imported: it looks where its folder is once.
    """
    os.environ.setdefault("TRITON_CACHE_DIR", str(cache() / "triton"))


def cache() -> Path:
    """The user's cache folder for Baton."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "baton"
