"""runs/journal.jsonl: what was trained when, on what, for how long; a line a piece of work, with its checksum."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from baton.store import files


def log(root: Path, entry: dict[str, Any]) -> None:
    """One line more, in one write: several processes may do so at once. On a full disk, none."""
    data = (files.sealed(entry) + "\n").encode()
    place = os.open(root / "journal.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        written = os.write(place, data)
        end = os.lseek(place, 0, os.SEEK_CUR)
        if written < len(data) and os.fstat(place).st_size == end:
            os.ftruncate(place, end - written)
    finally:
        os.close(place)


def entries(root: Path) -> Iterator[dict[str, Any]]:
    """Its lines, but for those that were cut short or are damaged."""
    for entry in lines(root):
        if entry is not None and isinstance(entry.get("runs"), list):
            yield entry


def lines(root: Path) -> Iterator[dict[str, Any] | None]:
    """All lines; None for what cannot be read."""
    try:
        text = files.read(root / "journal.jsonl").decode(errors="replace")
    except (OSError, files.Damaged):
        return
    for line in text.splitlines():
        try:
            yield files.opened(line)
        except ValueError:
            yield None
