"""What a person should know although nothing is wrong: one line on stderr, once a process."""

import sys
from threading import Lock

from baton.shown import print

_said: set[str] = set()
_lock = Lock()


def many(count: int, one: str, more: str = "") -> str:
    """`1 lane`, `3 lanes`, `2,000 files or folders`."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def once(line: str) -> None:
    """Say this, unless it was said before."""
    with _lock:
        new = line not in _said
        _said.add(line)
    if new:
        print(f"baton: {line}", file=sys.stderr, flush=True)
