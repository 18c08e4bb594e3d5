"""Who is at work on a store: one file a process, with a heartbeat. No file is ever locked: not all systems can.

What is assumed: a file that is created exclusively, or renamed, is so for everybody; and what a process has written
and closed is seen by another that opens the file then. Local disks and NFS do that.
"""

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from baton.nolinks import is_file, is_folder, make_folder, names_in
from baton.store import files

PLACE = (".work", "workers")  # of their files, in the store
TOKEN = re.compile(r"[0-9a-f]{16}")
MOST = 1 << 16  # bytes of a worker's file
CACHED = 60.0  # seconds that a network's disk may show an old time
SILENT = "BATON_SILENT_SECONDS"  # the variable that says how long


class Worker(NamedTuple):
    """One process at work, or one of its sweeps."""

    token: str  # random: nobody else's
    host: str
    pid: int
    born: str  # when the process began, which tells it from a later one of the same number
    world: str  # where numbers of processes mean the same: one boot of one machine, one namespace


def silent() -> float:
    """Seconds without a heartbeat after which a worker counts as dead that cannot be looked up here."""
    text = os.environ.get(SILENT, "")
    with suppress(ValueError):
        if (seconds := float(text)) > 0:
            return seconds
    return 60.0


def _born(pid: int) -> str:
    """When a process began, in the system's ticks; empty where that is not known."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


@cache
def _world() -> str:
    found = [socket.gethostname()]
    with suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        found.append(os.readlink("/proc/self/ns/pid"))
    return "/".join(found)


def me() -> Worker:
    """A worker of this process."""
    pid = os.getpid()
    return Worker(secrets.token_hex(8), socket.gethostname(), pid, _born(pid), _world())


class Workers:
    """All that are at work: runs/.work/workers/."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root.joinpath(*PLACE)
        self._seen: dict[str, tuple[object, float]] = {}  # token -> what was seen last, and since when

    def _path(self, token: str) -> Path:
        return self.folder / f"{token}.json"

    @contextmanager
    def working(self) -> Iterator[Worker]:
        """At work while inside, with a heartbeat."""
        worker, stop = me(), threading.Event()
        make_folder(self.root, *PLACE)
        self._beat(worker, 0)
        heart = threading.Thread(target=self._live, args=(worker, stop), daemon=True, name="heartbeat")
        heart.start()
        try:
            yield worker
        finally:
            stop.set()
            heart.join()
            with suppress(OSError):
                self._path(worker.token).unlink(missing_ok=True)

    def _live(self, worker: Worker, stop: threading.Event) -> None:
        beats = 0
        while not stop.wait(silent() / 12):
            beats += 1
            try:
                self._beat(worker, beats)
            except OSError:  # a full disk still has room for a time
                with suppress(OSError):
                    os.utime(self._path(worker.token))

    def _beat(self, worker: Worker, beats: int) -> None:
        files.write_json(self._path(worker.token), {**worker._asdict(), "beats": beats})

    def read(self, token: str) -> Worker | None:
        """A worker that is registered; None where there is none, or it cannot be read."""
        if not self._is_listed(token):
            return None
        try:
            found = files.read_json(self._path(token), MOST)
            fields = {name: found[name] for name in Worker._fields}
        except (OSError, files.Damaged, KeyError):
            return None
        sound = all(type(fields[name]) is kind for name, kind in Worker.__annotations__.items())
        return Worker(**fields) if sound else None

    def _is_listed(self, token: str) -> bool:
        """Return whether it is a token that Baton gives, with a file of its own."""
        inside = is_folder(self.folder.parent) and is_folder(self.folder)
        return inside and TOKEN.fullmatch(token) is not None and is_file(self._path(token))

    def dead(self, token: str) -> bool:
        """Whether nobody works under this token any more.

        A process of this machine is looked up. One elsewhere is dead when its heartbeat has not changed for so long by
        this process's own clock, or, at first sight, is much older than that by the disk's: clocks of two machines are
        never compared.
        """
        if not self._is_listed(token):
            return True
        path = self._path(token)
        worker = self.read(token)
        if worker is not None and worker.world == _world() and worker.born:
            return _born(worker.pid) != worker.born
        try:
            now = (files.read(path, MOST), path.lstat().st_mtime_ns)
        except FileNotFoundError:
            return True
        except (OSError, files.Damaged):
            now = (b"", 0)
        seen = self._seen.get(token)
        if seen is None or seen[0] != now:
            self._seen[token] = now, time.monotonic()
            return seen is None and self._age(path) > silent() + CACHED
        return time.monotonic() - seen[1] >= silent()

    def _age(self, path: Path) -> float:
        """Seconds since a file was written, by the clock of the disk that it lies on; 0 where nobody knows."""
        fresh = self.folder / f".{secrets.token_hex(8)}"
        try:
            fresh.touch()
            return fresh.stat().st_mtime - path.lstat().st_mtime
        except OSError:
            return 0.0
        finally:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)

    def tokens(self) -> list[str]:
        """Everybody that is registered, dead or alive."""
        found = [name.removesuffix(".json") for name in names_in(self.root, *PLACE) if name.endswith(".json")]
        return [token for token in found if TOKEN.fullmatch(token)]

    def forget(self, token: str) -> None:
        """Remove what a dead worker left of itself."""
        self._path(token).unlink(missing_ok=True)
