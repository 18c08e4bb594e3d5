"""Files of lines that several processes of one site add to: under one lock, and each line whole or not there."""

import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from baton import regular
from baton.errors import BadInput

LOCK = "lock"  # a file beside the books

T = TypeVar("T")


class Unreadable(BadInput):
    """A site's own file that is not what was written; the words are for the site's people."""


class Lock:
    """Of a site's folder, for all of its processes. Who holds it may take it again."""

    def __init__(self, folder: Path) -> None:
        self.path, self._depth, self._file = folder / LOCK, 0, -1

    def __enter__(self) -> None:
        if not self._depth:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            os.close(self._file)


class Book(Generic[T]):
    """One file of lines."""

    def __init__(self, path: Path, lock: Lock, parse: Callable[[str], T]) -> None:
        """parse: raises ValueError if a line is none of this book's."""
        self.path, self.lock, self._parse = path, lock, parse
        self._size, self._entries = 0, list[T]()  # bytes that were read, and what they say

    def read(self) -> list[T]:
        """Return all entries, those of other processes too.

        A last line that was cut short is of something that was not told: it is taken out, and the log says so.
        """
        if not self.path.exists():
            self._size, self._entries = 0, []
            return self._entries
        with self.lock:
            data = regular.read(self.path)
            if len(data) < self._size:  # another file has taken its place
                self._size, self._entries = 0, []
            end = data.rfind(b"\n") + 1
            if end < len(data):
                os.truncate(self.path, end)
                what = f"its last line was cut short and is taken out ({len(data) - end} bytes); nothing was told of it"
                print(f"{self.path}: {what}", file=sys.stderr, flush=True)
            for line in data[self._size : end].splitlines():
                self._entries.append(self._entry(line))
            self._size = end
        return self._entries

    def _entry(self, line: bytes) -> T:
        try:
            return self._parse(line.decode())
        except ValueError:
            number = len(self._entries) + 1
            self._size, self._entries = 0, []
            what = f"line {number}: got {line[:80]!r}; expected a line of this book"
            raise Unreadable(f"{self.path}: {what}. Put the file back from a copy, or correct the line") from None

    def add(self, line: str) -> None:
        """Write one more line; it is on disk when this returns."""
        with self.lock:
            self.read()
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "ab") as out:
                out.write(f"{line}\n".encode())
                out.flush()
                os.fsync(out.fileno())
            self.read()
