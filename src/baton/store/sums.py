"""A run's checksums: SHA256SUMS beside its files, as `sha256sum -c` reads it."""

import re
from collections.abc import Mapping
from pathlib import Path

from baton.store import files
from baton.store.files import Damaged

NAME = "SHA256SUMS"
FILES = {"metrics.csv", "setting.json", "state.safetensors"}  # of a run
FURTHER = {"sites.csv"}  # of some
FORM = re.compile(r"([0-9a-f]{64}  [\w.]+\n)+")


def written(contents: Mapping[str, str]) -> bytes:
    """The file, from the digest of each name."""
    return "".join(f"{digest}  {name}\n" for name, digest in contents.items()).encode()


def of(folder: Path) -> dict[str, str] | None:
    """The digest of each name; None where there are none: a run of before they were written."""
    try:
        text = files.read(folder / NAME).decode(errors="replace")
    except FileNotFoundError:
        return None
    pairs = [line.split("  ") for line in text.split("\n")[:-1]] if FORM.fullmatch(text) else []
    found = {name: digest for digest, name in pairs}
    if found.keys() - FURTHER != FILES:
        raise Damaged(f"{NAME} is damaged")
    return found


def read(folder: Path, name: str, known: Mapping[str, str] | None) -> bytes:
    """A file of a run, which must be what was written; known: what `of` gave."""
    data = files.read(folder / name)
    if known is not None and known.get(name) != files.checksum(data):
        raise Damaged(f"{name} is damaged: its checksum is that of something else")
    return data
