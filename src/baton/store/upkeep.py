"""Keeping a store in order: every file checked, what is damaged moved aside, what nobody needs cleaned up."""

import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from baton.errors import BadInput
from baton.index import RUN
from baton.store import files, journal, sums
from baton.store.files import Damaged
from baton.store.metrics import from_csv
from baton.store.runs import Store

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}")  # what is written before it is renamed
STALE_SECONDS = 3600.0  # a temporary file that old is nobody's


class Fault(NamedTuple):
    """Something that is not as it should be."""

    path: Path
    what: str


class Checked(NamedTuple):
    """What a look at every file found."""

    files: int  # looked at
    unchecked: int  # of them written before there were checksums
    faults: list[Fault]
    orphans: list[Path]  # left by processes that are gone; nobody needs them


def verify(store: Store) -> Checked:
    """Read every file of a store and compare it with its checksum."""
    seen, bare, faults = 0, 0, list[Fault]()
    for folder in _runs(store):
        names = [path.name for path in folder.iterdir() if not TEMPORARY.fullmatch(path.name)]
        seen += len(names)
        try:
            known = sums.of(folder)
            bare += 0 if known is not None else len(names)
            _check_run(store, folder, known)
        except (OSError, BadInput) as error:
            faults.append(Fault(folder, _told(error)))
    for path, check in _others(store):
        seen += 1
        try:
            check()
        except (OSError, BadInput) as error:
            faults.append(Fault(path, _told(error)))
    return Checked(seen, bare, faults, list(orphans(store)))


def _told(error: Exception) -> str:
    return f"{error.strerror}" if isinstance(error, OSError) else str(error).splitlines()[0]


def _runs(store: Store) -> list[Path]:
    try:
        return sorted(path for path in store.root.iterdir() if RUN.fullmatch(path.name) and path.is_dir())
    except FileNotFoundError:
        return []


def _check_run(store: Store, folder: Path, known: dict[str, str] | None) -> None:
    """A run's folder: all files there, what was written, and of one run."""
    for name in known or ():
        sums.read(folder, name, known)
    entry = store.entry(folder.name, 0)
    if entry.earlier:
        return
    if entry.fault:
        raise Damaged(entry.fault)
    if (folder / "metrics.csv").exists():
        from_csv(files.read(folder / "metrics.csv"))
    store.sites(folder.name)
    if store.complete(folder.name):
        if known is None and files.has_sum(folder / "state.safetensors"):
            raise Damaged(f"no {sums.NAME} beside its state")
        files.load(folder / "state.safetensors")
        _ends(store, folder.name)


def _ends(store: Store, run: str) -> None:
    """A run that did not diverge has its last round in its metrics."""
    found = store.read(run)
    rounds = found.metrics.get("round")
    if rounds is None or not len(rounds):
        raise Damaged("metrics.csv is damaged: no rounds in it")
    if found.diverged is None and rounds[-1] != found.setting.rounds:
        raise Damaged(f"metrics.csv is damaged: it ends at round {rounds[-1]:g} of {found.setting.rounds}")


def _others(store: Store) -> Iterator[tuple[Path, "_Check"]]:
    pool = store.pool
    for path in pool.damaged():
        yield path, _Check(path, "chunk")
    for chunk in pool.chunks():
        yield chunk.folder / "chunk.json", _Check(chunk.folder / "chunk.json", "json")
        for path in sorted(chunk.folder.glob("*at-*.safetensors")):
            yield path, _Check(path, "tensors")
    for path in sorted(path for folder in ("tuned", "hops") for path in (store.root / folder).glob("*.json")):
        yield path, _Check(path, "json")
    if (store.root / "journal.jsonl").exists():
        yield store.root / "journal.jsonl", _Check(store.root, "journal")


class _Check(NamedTuple):
    """How one file is looked at."""

    path: Path
    kind: str

    def __call__(self) -> None:
        if self.kind == "chunk":
            raise Damaged("chunk.json is damaged")
        if self.kind == "json":
            files.read_json(self.path)
        if self.kind == "tensors":
            if self.path.name.startswith("damaged-"):
                raise Damaged("a checkpoint that was found damaged")
            files.load(self.path)
        if self.kind == "journal":
            bad = sum(entry is None for entry in journal.lines(self.path))
            if bad:
                raise Damaged(f"{bad} of its lines cannot be read, and are passed over")


def orphans(store: Store) -> Iterator[Path]:
    """What processes left that ended without a chance to clean up."""
    pool = store.pool
    dead = {token for token in pool.workers.tokens() if pool.workers.dead(token)}
    yield from (pool.workers.folder / f"{token}.json" for token in sorted(dead))
    alive = len(pool.workers.tokens()) > len(dead)
    for folder in (pool.folder, pool.staged):
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                hidden = path.name.startswith(".") or folder.name == "staged"
                if hidden and (not alive or _old(path)):
                    yield path
    for chunk in pool.chunks():
        if pool.free(chunk) and all(store.complete(run) for run in chunk.laid.runs):
            yield chunk.folder
    for folder in (store.root, *_runs(store), store.root / "tuned", *(chunk.folder for chunk in pool.chunks())):
        with suppress(OSError):
            yield from (p for p in sorted(folder.iterdir()) if TEMPORARY.fullmatch(p.name) and (not alive or _old(p)))


def _old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    except OSError:
        return False


def aside(store: Store, fault: Fault) -> str:
    """Move what is damaged out of the way, and say where it is; the journal stays: its bad lines are passed over."""
    if fault.path.name == "journal.jsonl":
        return f"{fault.path} stays: {fault.what}"
    what = fault.path.parent if fault.path.name == "chunk.json" else fault.path
    return f"{what} -> {store.set_aside(what, 'damaged')}: {fault.what}"


def clean(path: Path) -> None:
    """Delete what nobody needs."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def forget(store: Store, runs: Sequence[str], why: str) -> list[Path]:
    """Move what there is of these runs aside, and say where it is now; nobody may be at work on them."""
    wanted = set(runs)
    flying = [chunk for chunk in store.pool.chunks() if wanted.intersection(chunk.laid.runs)]
    for chunk in flying:
        if worker := store.pool.holder(chunk):
            raise BadInput(f"runs: process {worker.pid} on {worker.host} is training some of these; stop it first")
    done = [folder for run in runs if (folder := store.folder(run)).exists()]
    begun = [chunk.folder for chunk in flying if wanted.issuperset(chunk.laid.runs)]
    moved = list[Path]()
    for folder in (*done, *begun):
        moved.append(store.set_aside(folder, why, moved[-1] if moved else None))
    return [moved[0].parent] if moved else []
