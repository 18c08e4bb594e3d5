"""runs/journal.jsonl: what was trained when, on what, for how long; a line a piece of work, with its checksum."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from baton.nolinks import is_file
from baton.notice import once
from baton.store import files

NAME = "journal.jsonl"
LONGEST = 1e12  # seconds


def log(root: Path, entry: dict[str, Any]) -> None:
    """One line more, in one write: several processes may do so at once. On a full disk, none.

    Into a link, a pipe or whatever else is no regular file nothing is written, which is told.
    """
    path, data = root / NAME, (files.sealed(entry) + "\n").encode()
    if os.path.lexists(path) and not is_file(path):
        once(f"{path} is no regular file: what was trained is not written down; 'baton repair' moves it aside")
        return
    how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    place = os.open(path, how, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):  # put there just now
            return
        written = os.write(place, data)
        end = os.lseek(place, 0, os.SEEK_CUR)
        if written < len(data) and os.fstat(place).st_size == end:
            os.ftruncate(place, end - written)
    finally:
        os.close(place)


def entries(root: Path) -> Iterator[dict[str, Any]]:
    """Its lines, but for those that were cut short or are damaged."""
    return (entry for entry in lines(root) if entry is not None)


def lines(root: Path) -> Iterator[dict[str, Any] | None]:
    """All lines; None for what cannot be read."""
    try:
        text = files.read(root / NAME).decode(errors="replace")
    except (OSError, files.Damaged):
        return
    for line in text.splitlines():
        try:
            entry = files.opened(line)
        except ValueError:
            entry = {}
        yield entry if _is_sound(entry) else None


def _is_sound(entry: dict[str, Any]) -> bool:
    """Return whether what is there has the types that `log` is given; all but the runs may be left out."""
    texts = [entry.get(name, "") for name in ("ended", "device", "precision")]
    for table in (entry.get("versions", {}), entry.get("how", {})):
        if not isinstance(table, dict):
            return False
        texts += table.values()
    runs, seconds = entry.get("runs"), entry.get("seconds", 0.0)
    if not isinstance(runs, list) or not all(isinstance(text, str) for text in (*texts, *runs)):
        return False
    return type(seconds) in (int, float) and 0 <= seconds < LONGEST
