"""An index of the runs in a store, so that to list 20,000 of them no file is opened.

The files are the truth. The index says of each run's folder when it last changed; a folder that has changed since is
read again. Whoever loses the index loses a few seconds. It lies beside the runs, in WAL mode; where they are on a
network's disk, which cannot do that, in the user's cache folder.
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from baton.caches import cache
from baton.errors import BadInput

RUN = re.compile(r"[0-9a-f]{16}")
VERSION = 3  # of the table
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "hfs", "f2fs", "ramfs", "bcachefs")


class Entry(NamedTuple):
    """What the index says of a run."""

    run: str
    stamp: int  # when its folder last changed, in nanoseconds
    setting: str  # as JSON; empty where it cannot be read
    kin: str  # what it shares with its own beginning
    rounds: int
    complete: int  # whether it is: 0 or 1
    about: str  # what its state says of itself, as JSON
    fault: str  # what is wrong with it, in one line
    ends: str = ""  # its last evaluation by metric, as JSON
    earlier: int = 0  # whether it is of an earlier format, which is its fault then: 0 or 1


def check(root: Path) -> None:
    """Refuse what cannot be a store."""
    if root.exists() and not root.is_dir():
        raise BadInput(f"runs: {str(root)!r} is a file; a folder is right")


FIELDS = ", ".join(Entry._fields)


class Index:
    """The index of one store; read: what a folder of a run is."""

    def __init__(self, root: Path, read: Callable[[str, int], Entry]) -> None:
        self.root, self._read = root, read
        self._entries: dict[str, Entry] | None = None

    def place(self) -> Path:
        """The file it is kept in."""
        if _type(self.root) in LOCAL:
            return self.root / ".index.sqlite"
        name = hashlib.sha256(str(self.root.resolve()).encode()).hexdigest()[:16]
        return cache() / "index" / f"{name}.sqlite"

    def entries(self) -> dict[str, Entry]:
        """Every run's folder as it is now, by id."""
        here = dict(_folders(self.root))
        known = self._entries if self._entries is not None else self._load()
        stale = [run for run, stamp in here.items() if run not in known or known[run].stamp != stamp]
        gone = [run for run in known if run not in here]
        fresh = {run: self._read(run, here[run]) for run in stale}
        if fresh or gone:
            self._store(fresh.values(), gone)
        self._entries = {run: fresh.get(run) or known[run] for run in sorted(here)}
        return self._entries

    def add(self, entries: Iterable[Entry]) -> None:
        """Runs whose folders have just appeared; their stamps are taken here."""
        with suppress(OSError):
            self._store([e._replace(stamp=os.stat(self.root / e.run).st_mtime_ns) for e in entries], [])

    def _load(self) -> dict[str, Entry]:
        if not self.place().exists():
            return {}
        try:
            with self._database() as database:
                rows = database.execute(f"SELECT {FIELDS} FROM runs").fetchall()
            return {row[0]: Entry._make(row) for row in rows}
        except (sqlite3.Error, OSError):
            self.remove()
            return {}

    def _store(self, fresh: Iterable[Entry], gone: list[str]) -> None:
        """As far as that can be: a disk that is full or read-only costs time, not an answer."""
        try:
            with self._database() as database, database:
                database.executemany("DELETE FROM runs WHERE run = ?", [(run,) for run in gone])
                marks = ", ".join("?" * len(Entry._fields))
                database.executemany(f"INSERT OR REPLACE INTO runs ({FIELDS}) VALUES ({marks})", list(fresh))
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError):
                self.remove()
        except OSError:
            pass

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        path = self.place()
        if path.exists() and not path.is_file():
            raise OSError(f"{path} is no file")
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=5.0)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")  # it can be made again
            if database.execute("PRAGMA user_version").fetchone()[0] != VERSION:
                with database:
                    database.execute("DROP TABLE IF EXISTS runs")
                    database.execute(
                        "CREATE TABLE runs (run TEXT PRIMARY KEY, stamp INTEGER, setting TEXT, kin TEXT, "
                        "rounds INTEGER, complete INTEGER, about TEXT, fault TEXT, ends TEXT, earlier INTEGER)"
                    )
                    database.execute(f"PRAGMA user_version = {VERSION}")
            yield database

    def remove(self) -> None:
        """Nothing is lost with it but time."""
        self._entries = None
        path = self.place()
        for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            with suppress(OSError):
                if each.is_file():
                    each.unlink()


def _folders(root: Path) -> Iterator[tuple[str, int]]:
    """Every folder that may be a run's, and when it last changed."""
    try:
        with os.scandir(root) as found:
            for each in found:
                if RUN.fullmatch(each.name):
                    with suppress(OSError):
                        if each.is_dir():
                            yield each.name, each.stat().st_mtime_ns
    except OSError:
        return


def _type(path: Path) -> str:
    """The kind of file system a path lies on; unknown where the system does not say."""
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return "apfs" if os.uname().sysname == "Darwin" else "unknown"
    whole, best = path.resolve(), ("", "unknown")
    for line in lines:
        _, place, kind, *_ = line.split(" ")
        place = place.replace("\\040", " ")
        if whole.is_relative_to(place) and len(place) >= len(best[0]):
            best = place, kind
    return best[1]
