"""Where Baton keeps what it can make again."""

import os
from pathlib import Path


def cache() -> Path:
    """The user's cache folder for Baton."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "baton"
