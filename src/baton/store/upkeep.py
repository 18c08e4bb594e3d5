"""Keeping a store in order: every file checked, what is damaged moved aside, what nobody needs cleaned up."""

import errno
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from baton.errors import BadInput
from baton.index import RUN
from baton.nolinks import delete, is_file, is_folder, is_link, names_in
from baton.store import files, journal, sums
from baton.store.files import Damaged
from baton.store.metrics import from_csv
from baton.store.pool import AT, STAGE
from baton.store.runs import Store

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}")  # what is written before it is renamed
LEFT = re.compile(r"\.(gone-)?\d{20}-[0-9a-f]{8}(-[0-9a-f]{8})?")  # a chunk half made, or half deleted
FOLDERS = (".work", ".aside", "tuned", "hops")  # of a store, beside those of runs
LINK = "a link, which is not followed"
CLOSED = "; its owner can allow it"
STALE_SECONDS = 3600.0  # a temporary file that old is nobody's


class Fault(NamedTuple):
    """Something that is not as it should be."""

    path: Path
    what: str
    stays: bool = False  # it is not moved aside: there is nothing to mend, or not by us


class Checked(NamedTuple):
    """What a look at every file found."""

    files: int  # looked at
    unchecked: int  # of them written before there were checksums
    faults: list[Fault]
    orphans: list[Path]  # left by processes that are gone; nobody needs them


def verify(store: Store) -> Checked:
    """Read every file of a store and compare it with its checksum, and the index with the files."""
    seen, bare, links = 0, 0, list(_links(store))
    faults = [Fault(path, LINK) for path in links]
    for folder in _runs(store):
        names = [name for name in names_in(folder) if not TEMPORARY.fullmatch(name)]
        seen += len(names)
        try:
            os.listdir(folder)  # or the reason
            if linked := [name for name in names if is_link(folder / name)]:
                raise Damaged(f"{linked[0]} is {LINK}")
            known = sums.of(folder)
            bare += 0 if known is not None else len(names)
            _check_run(store, folder, known)
        except (OSError, BadInput) as error:
            faults.append(_fault(folder, error))
    damaged, place = {fault.path.name for fault in faults}, store.index_place
    if place not in links:
        faults += [Fault(place, what, stays=True) for what in store.index_faults(lambda run: run not in damaged)]
    for path, check in _others(store):
        seen += 1
        try:
            check()
        except (OSError, BadInput) as error:
            faults += [] if any(path in (link, link.parent) for link in links) else [_fault(path, error)]
    return Checked(seen, bare, faults, list(orphans(store)))


def _fault(path: Path, error: Exception) -> Fault:
    """What is wrong, in a line; what we may not read is not damaged, and stays."""
    if not isinstance(error, OSError):
        return Fault(path, str(error).splitlines()[0])
    closed = error.errno in (errno.EACCES, errno.EPERM)
    return Fault(path, f"{error.strerror}{CLOSED if closed else ''}", stays=closed)


def _links(store: Store) -> Iterator[Path]:
    """Links in the places that are Baton's, none of which it makes."""
    for name in names_in(store.root):
        path = store.root / name
        if is_link(path):
            if name in (*FOLDERS, journal.NAME) or name.startswith(".index.sqlite") or RUN.fullmatch(name):
                yield path
        elif name in FOLDERS and name != ".aside":
            yield from _links_below(path)


def _links_below(folder: Path) -> Iterator[Path]:
    """Links in a folder and the folders in it."""
    for name in names_in(folder):
        path = folder / name
        if is_link(path):
            yield path
        elif is_folder(path):
            yield from _links_below(path)


def _runs(store: Store) -> list[Path]:
    return [path for name in names_in(store.root) if RUN.fullmatch(name) and is_folder(path := store.root / name)]


def _check_run(store: Store, folder: Path, known: dict[str, str] | None) -> None:
    """A run's folder: all files there, what was written, and of one run."""
    for name in known or ():
        sums.read(folder, name, known)
    entry = store.entry(folder.name, 0)
    if entry.earlier:
        return
    if entry.fault:
        raise Damaged(entry.fault)
    if os.path.lexists(folder / "metrics.csv"):
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
        for name in names_in(chunk.folder):
            if AT.fullmatch(name.removeprefix("damaged-")):
                yield chunk.folder / name, _Check(chunk.folder / name, "tensors")
    for folder in ("tuned", "hops"):
        for name in names_in(store.root, folder):
            if name.endswith(".json") and not name.startswith("."):
                yield store.root / folder / name, _Check(store.root / folder / name, "json")
    if os.path.lexists(store.root / journal.NAME):
        yield store.root / journal.NAME, _Check(store.root / journal.NAME, "journal")


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
            files.read(self.path)
            bad = sum(entry is None for entry in journal.lines(self.path.parent))
            if bad:
                raise Damaged(f"{bad} of its lines cannot be read, and are passed over")


def orphans(store: Store) -> Iterator[Path]:
    """What processes left that ended without a chance to clean up."""
    pool = store.pool
    dead = {token for token in pool.workers.tokens() if pool.workers.dead(token)}
    yield from (pool.workers.folder / f"{token}.json" for token in sorted(dead))
    alive = len(pool.workers.tokens()) > len(dead)
    for folder, form in ((pool.folder, LEFT), (pool.staged, STAGE)):
        for name in names_in(store.root, ".work", folder.name):
            if form.fullmatch(name) and is_folder(folder / name) and (not alive or _old(folder / name)):
                yield folder / name
    for chunk in pool.chunks():
        if pool.free(chunk) and all(store.complete(run) for run in chunk.laid.runs):
            yield chunk.folder
    for folder in (
        *_runs(store),
        store.root / "tuned",
        store.root / "hops",
        *(chunk.folder for chunk in pool.chunks()),
    ):
        for name in names_in(folder.parent, folder.name):
            path = folder / name
            if TEMPORARY.fullmatch(name) and is_file(path) and (not alive or _old(path)):
                yield path


def _old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > STALE_SECONDS
    except OSError:
        return False


def aside(store: Store, fault: Fault) -> str:
    """Move what is damaged out of the way, and say where it is now, or why it stays."""
    what = fault.path.parent if fault.path.name == "chunk.json" else fault.path
    bad_lines = fault.path.name == journal.NAME and is_file(fault.path)  # they are passed over
    if fault.stays or bad_lines or not os.path.lexists(what):
        return f"{fault.path} stays: {fault.what}"
    if what == store.root / ".aside":  # nothing can be moved into it
        delete(what)
        return f"{what} deleted: {fault.what}"
    try:
        return f"{what} -> {store.set_aside(what, 'damaged')}: {fault.what}"
    except OSError as error:
        return f"{what} stays: {fault.what}; it cannot be moved: {error.strerror}"


def clean(path: Path) -> None:
    """Delete what nobody needs."""
    delete(path)


def forget(store: Store, runs: Sequence[str], why: str) -> list[Path]:
    """Move what there is of these runs aside, and say where it is now; nobody may be at work on them."""
    wanted = set(runs)
    flying = [chunk for chunk in store.pool.chunks() if wanted.intersection(chunk.laid.runs)]
    for chunk in flying:
        if worker := store.pool.holder(chunk):
            raise BadInput(f"runs: process {worker.pid} on {worker.host} is training some of these; stop it first")
    done = [folder for run in runs if os.path.lexists(folder := store.folder(run))]
    begun = [chunk.folder for chunk in flying if wanted.issuperset(chunk.laid.runs)]
    moved = list[Path]()
    for folder in (*done, *begun):
        moved.append(store.set_aside(folder, why, moved[-1] if moved else None))
    return [moved[0].parent] if moved else []
