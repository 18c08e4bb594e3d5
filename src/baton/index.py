"""An index of the runs in a store, so that to list 20,000 of them no file is opened.

The files are the truth. The index says of each run's folder when it last changed; a folder that has changed since is
read again. Whoever loses the index loses a few seconds. It lies beside the runs, in WAL mode; where they are on a
network's disk, which cannot do that, in the user's cache folder.
"""

import hashlib
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from baton import regular
from baton.caches import cache
from baton.errors import BadInput
from baton.nolinks import is_file, is_folder

RUN = re.compile(r"[0-9a-f]{16}")
APPLICATION = 0x4261746F  # what SQLite's header says of whose file it is: "Bato"
VERSION = 4  # of the table
LONGEST = 1 << 24  # bytes of one value in it
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
TABLE = (
    "CREATE TABLE runs (run TEXT PRIMARY KEY, stamp INTEGER, setting TEXT, kin TEXT, "
    "rounds INTEGER, complete INTEGER, about TEXT, fault TEXT, ends TEXT, earlier INTEGER, checksum TEXT)"
)
SCHEMA = [("table", "runs", TABLE), ("index", "sqlite_autoindex_runs_1", None)]  # all that is in it


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
        # Not what could not be read: who may read a run can change without a trace.
        kept = [entry for entry in fresh.values() if entry.earlier or not entry.fault]
        if kept or gone:
            self._store(kept, gone)
        self._entries = {run: fresh.get(run) or known[run] for run in sorted(here)}
        return self._entries

    def add(self, entries: Iterable[Entry]) -> None:
        """Runs whose folders have just appeared; their stamps are taken here."""
        with suppress(OSError):
            self._store([e._replace(stamp=os.stat(self.root / e.run).st_mtime_ns) for e in entries], [])

    def _load(self) -> dict[str, Entry]:
        """What is remembered; rows that are not what was written are left out, and their runs read again."""
        try:
            return {entry.run: entry for entry in self._rows() if entry is not None}
        except (sqlite3.Error, OSError):
            self.remove()
            return {}

    def _rows(self) -> Iterator[Entry | None]:
        """All rows; None for each that is not what was written."""
        if _foreign(self.place()):
            raise OSError("it is not Baton's index")
        if not is_file(self.place()):
            return
        with self._database() as database:
            for *values, checksum in database.execute(f"SELECT {FIELDS}, checksum FROM runs"):
                entry = Entry._make(values)
                yield entry if _is_sound(entry, checksum) else None

    def faults(self, sound: Callable[[str], bool]) -> list[str]:
        """What is wrong with it, compared with the files of runs that are sound; nothing where there is none yet."""
        here, found = dict(_folders(self.root)), list[str]()
        try:
            for entry in self._rows():
                if entry is None:
                    found.append("a row is not what was written")
                elif here.get(entry.run) != entry.stamp or not sound(entry.run):
                    continue
                elif not _agrees(entry, self._read(entry.run, entry.stamp)):
                    found.append(f"its row of run {entry.run} does not say what the run's files do")
        except (sqlite3.Error, OSError) as error:
            found.append(" ".join(str(error).split()))
        return found

    def _store(self, fresh: Iterable[Entry], gone: list[str]) -> None:
        """As far as that can be: a disk that is full or read-only costs time, not an answer."""
        rows = [(*entry, _checksum(entry)) for entry in fresh]
        try:
            with self._database() as database, database:
                database.executemany("DELETE FROM runs WHERE run = ?", [(run,) for run in gone])
                marks = ", ".join("?" * (len(Entry._fields) + 1))
                database.executemany(f"INSERT OR REPLACE INTO runs ({FIELDS}, checksum) VALUES ({marks})", rows)
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError):
                self.remove()
        except OSError:
            pass

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """The file, once it is sure to be Baton's own; in the place of whatever else is there, a new one."""
        path = self.place()
        if not is_file(path) or _foreign(path):
            self.remove()
            _create(path)
        with closing(sqlite3.connect(path, timeout=5.0)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA synchronous = OFF")  # it can be made again
            if database.execute("SELECT type, name, sql FROM sqlite_master").fetchall() != SCHEMA:
                raise sqlite3.DatabaseError("it has other tables than Baton's index")
            yield database

    def remove(self) -> None:
        """Nothing is lost with it but time. A link goes by its own name."""
        self._entries = None
        path = self.place()
        for each in (path, *_beside(path)):
            with suppress(OSError):
                if not is_folder(each):
                    each.unlink()


def _is_sound(entry: Entry, checksum: object) -> bool:
    """Return whether a row is what was written."""
    kinds = all(type(x) is kind for x, kind in zip(entry, Entry.__annotations__.values(), strict=True))
    return kinds and RUN.fullmatch(entry.run) is not None and checksum == _checksum(entry)


def _agrees(entry: Entry, now: Entry) -> bool:
    """Return whether a row says what a run's files say; of files that cannot be read nothing is said."""
    return bool(now.fault) or _spelled(entry) == _spelled(now)


def _spelled(entry: Entry) -> Entry:
    """The same with the keys of its tables in order."""
    try:
        about, ends = (json.dumps(json.loads(text or "{}"), sort_keys=True) for text in (entry.about, entry.ends))
    except (ValueError, RecursionError):
        return entry
    return entry._replace(about=about, ends=ends)


def _checksum(entry: Entry) -> str:
    return hashlib.sha256("\0".join(map(str, entry)).encode()).hexdigest()[:16]


def _beside(path: Path) -> list[Path]:
    """What SQLite has beside a file."""
    return [path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm", "-journal")]


def _foreign(path: Path) -> bool:
    """Return whether what is there is not a file that `_create` made: nothing is asked of SQLite for that."""
    if not os.path.lexists(path):
        return False
    wal, shm, journal = _beside(path)
    if any(os.path.lexists(each) and not is_file(each) for each in (wal, shm)) or os.path.lexists(journal):
        return True  # it is never without a write-ahead log, so that a journal, which may name files, is not its own
    try:
        with regular.opened(path, links=False) as file:
            head = file.read(100)
    except (OSError, BadInput):
        return True
    return (head[:16], head[18:20], head[60:64], head[68:72]) != (
        b"SQLite format 3\0",
        b"\2\2",  # with a write-ahead log
        VERSION.to_bytes(4),
        APPLICATION.to_bytes(4),
    )


def _create(path: Path) -> None:
    """Make an empty index under another name, and then give it its own, unless another process was faster."""
    if os.path.lexists(path):
        raise OSError(f"{path} is no file")  # a folder: it stays
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with closing(sqlite3.connect(temporary, timeout=5.0)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = OFF")
            database.execute(f"PRAGMA application_id = {APPLICATION}")
            database.execute(f"PRAGMA user_version = {VERSION}")
            database.execute(TABLE)
            database.commit()
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:  # there are no hard links
            os.replace(temporary, path)
    finally:
        for each in (temporary, *_beside(temporary)):
            each.unlink(missing_ok=True)


def _folders(root: Path) -> Iterator[tuple[str, int]]:
    """Every folder that may be a run's, and when it last changed."""
    try:
        with os.scandir(root) as found:
            for each in found:
                if RUN.fullmatch(each.name):
                    with suppress(OSError):
                        if each.is_dir(follow_symlinks=False):
                            yield each.name, each.stat(follow_symlinks=False).st_mtime_ns
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
