"""What this process may have: the host's free memory, what its control groups leave it, its address space.

Control groups of both versions, wherever they are mounted. What cannot be read, or is not as it should be, is no limit.
"""

import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from baton.errors import BadInput

REFUSED = (  # as torch, the system and its loader say it
    *("allocate memory", "not enough memory", "storage size calculation overflowed"),
    *("failed to map segment", "can't start new thread"),
)
PROC, ROOT = Path("/proc"), Path("/")
NONE = 1 << 60  # bytes: a limit from here on is none; version 1 writes 2^63 less a page


class Group(NamedTuple):
    """A control group that this process is in, itself or by one inside it."""

    folder: Path
    version: int


def memory(proc: Path = PROC, root: Path = ROOT) -> int | None:
    """Bytes that can still be taken: the least of all that is known; None where nothing is."""
    found = (_available(proc), _room(proc, root), _address_space(proc))
    return min((size for size in found if size is not None), default=None)


def quota(proc: Path = PROC, root: Path = ROOT) -> int | None:
    """Whole cores' worth of time, at least 1; None where there is no quota."""
    found = [cores for group in groups("cpu", proc, root) if (cores := _cores(group)) is not None]
    return max(1, int(min(found))) if found else None


def fits(size: int, what: str) -> None:
    """Refuse what takes so many bytes before it is made; what: the beginning of the line."""
    room = memory()
    if room is not None and size > room:
        raise BadInput(f"{what}; that takes {_readable(size)}, and {_readable(room)} are free")


@contextmanager
def enough(what: str) -> Iterator[None]:
    """What the system does not give in here is told in one line; what: its beginning."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError, ImportError) as error:
        said = " ".join(str(error).split())
        if not isinstance(error, MemoryError) and not any(word in said.lower() for word in REFUSED):
            raise
        asked = re.search(r"tried to allocate (\d+) bytes", said)
        raise BadInput(f"{what}{f' (a piece of {_readable(int(asked[1]))})' if asked else ''}") from None


def _readable(size: int) -> str:
    return f"{size / (1 << 30):,.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):,.1f} MiB"


def groups(controller: str, proc: Path = PROC, root: Path = ROOT) -> Iterator[Group]:
    """The groups of a controller that this process is in, from its own to the outermost that is mounted here."""
    paths = _paths(_text(proc / "self" / "cgroup"))
    for line in _text(proc / "self" / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        version = 2 if kind[0] == "cgroup2" else 1
        if version == 1 and controller not in kind[2].split(","):
            continue
        top = root / _plain(fields[4]).lstrip("/")
        own = _inside(paths.get(controller if version == 1 else "", "/"), _plain(fields[3]))
        folder = top / own if os.path.isdir(top / own) else top
        yield Group(folder, version)
        while folder != top:
            folder = folder.parent
            yield Group(folder, version)


def _paths(text: str) -> dict[str, str]:
    """By controller, '' for version 2: where in its hierarchy this process is."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        found |= dict.fromkeys(names.split(","), path)
    return found


def _inside(path: str, mounted: str) -> str:
    """A group's path under the mount of a part of its hierarchy; '' where it is not in there by name."""
    own, part = PurePosixPath(path), PurePosixPath(mounted)
    if ".." in own.parts or ".." in part.parts:  # seen from a namespace further in
        return ""
    return str(own.relative_to(part) if own.is_relative_to(part) else own).lstrip("/")


def _plain(word: str) -> str:
    """A path of mountinfo, in which spaces are written in octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def _room(proc: Path, root: Path) -> int | None:
    """What the groups' memory limits leave."""
    found = [size for group in groups("memory", proc, root) if (size := _left(group)) is not None]
    return min(found, default=None)


def _left(group: Group) -> int | None:
    """A group's limit less its use; pages of files that nobody has looked at lately can be had back."""
    folder, new = group
    stat = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
    if new == 2:
        limits = [_number(_text(folder / name)) for name in ("memory.max", "memory.high")]
        use, idle = _number(_text(folder / "memory.current")), _number(stat.get("inactive_file", ""))
    else:
        of_all = stat.get("hierarchical_memory_limit", "")  # the groups' further out too
        limits = [_number(_text(folder / "memory.limit_in_bytes")), _number(of_all)]
        use, idle = _number(_text(folder / "memory.usage_in_bytes")), _number(stat.get("total_inactive_file", ""))
    limit = min((size for size in limits if size is not None and size < NONE), default=None)
    return None if limit is None else max(0, limit - max(0, (use or 0) - (idle or 0)))


def _cores(group: Group) -> float | None:
    if group.version == 2:
        words = _text(group.folder / "cpu.max").split()
    else:
        words = [_text(group.folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    time, period = [_number(word) for word in words] if len(words) == 2 else [None, None]
    return time / period if time and period else None  # `max`, -1 and 0 are none


def _available(proc: Path) -> int | None:
    """The host's."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB$", _text(proc / "meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _address_space(proc: Path) -> int | None:
    """What `ulimit -v` leaves."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    pages = _number(_text(proc / "self" / "statm").partition(" ")[0])
    return max(0, limit - (pages or 0) * os.sysconf("SC_PAGE_SIZE"))


def _number(text: str) -> int | None:
    """Digits and nothing else."""
    return int(text) if re.fullmatch(r"\s*[0-9]{1,20}\s*", text) else None


def _text(path: Path) -> str:
    """A file's content; '' where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except (OSError, ValueError):
        return ""
