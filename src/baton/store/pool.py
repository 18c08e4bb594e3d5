"""Work in flight: runs/.work/chunks/, a folder a chunk. Every process that works on the store takes from here.

A chunk is some runs that train together. Its folder holds what it is (chunk.json), whose it is (claim-N) and how far it
is (at-N.safetensors, all its lanes in one file, so that one rename moves them forward together).
"""

import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from baton.notice import once
from baton.store import claims, files
from baton.store.claims import Claim
from baton.store.columns import SITE
from baton.store.files import Damaged
from baton.store.history import History
from baton.store.snapshot import Snapshot, drawers, named
from baton.store.workers import Worker, Workers

MODEL = "model/"  # what the names of the model's leaves begin with
APART = "sites-"  # before those of metrics at every site: many numbers, which a look does without
AT = re.compile(r"at-(\d{6})\.safetensors")
Facts = dict[str, str]  # how something was computed: way, threads, CPU, versions, ...


class Laid(NamedTuple):
    """A chunk as it was laid down before training."""

    runs: list[str]
    settings: list[str]  # as JSON, one a run
    device: str
    precision: str
    share: float  # of the device
    memory: int  # bytes it takes
    begun: int  # rounds that lie in the store as runs of their own
    by: str  # the token of who laid it
    how: Facts  # and on what
    threads: int = 0  # cores it takes; 0: those of its share of the device


class Chunk(NamedTuple):
    """A chunk of the pool."""

    folder: Path
    laid: Laid

    @property
    def started(self) -> bool:
        """Whether there is a checkpoint."""
        return bool(_checkpoints(self.folder))


class Seen(NamedTuple):
    """A checkpoint, but for its models: for a look while it trains."""

    round: int
    diverged: list[int]
    history: History


def _checkpoints(folder: Path) -> list[Path]:
    """The newest first."""
    try:
        found = [path for path in folder.iterdir() if AT.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(found, reverse=True)


class Pool:
    """All chunks in flight, and who is at work on them."""

    def __init__(self, root: Path) -> None:
        self.work = root / ".work"
        self.folder = self.work / "chunks"
        self.staged = self.work / "staged"  # folders of runs before they are renamed into place, by worker
        self.workers = Workers(self.work / "workers")
        self._known: dict[str, Laid | None] = {}  # by name: what is laid stays as it is; None: damaged
        self._looked: dict[Path, tuple[int, Seen]] = {}
        self._flying: tuple[object, dict[str, tuple[Chunk, int]]] = (), {}

    # --- what is there

    def chunks(self) -> list[Chunk]:
        """All chunks, in the order they were laid down."""
        try:
            names = sorted(path.name for path in self.folder.iterdir() if not path.name.startswith("."))
        except OSError:
            return []
        for name in names:
            if self._known.get(name) is None:
                self._known[name] = self._read(self.folder / name)
        return [Chunk(self.folder / name, laid) for name in names if (laid := self._known[name])]

    def damaged(self) -> list[Path]:
        """Folders of chunks that cannot be read."""
        self.chunks()
        return [path for name, laid in self._known.items() if laid is None and (path := self.folder / name).exists()]

    def _read(self, folder: Path) -> Laid | None:
        try:
            table = files.read_json(folder / "chunk.json")
            laid = Laid(**table)
            sound = len(laid.runs) == len(laid.settings) > 0 and all(isinstance(run, str) for run in laid.runs)
        except (OSError, Damaged, TypeError):
            return None
        return laid if sound else None

    def holder(self, chunk: Chunk) -> Worker | None:
        """Who is at work on a chunk; None where nobody is."""
        token = claims.holder(chunk.folder)
        return None if not token or self.workers.dead(token) else self.workers.read(token)

    def free(self, chunk: Chunk) -> bool:
        """Whether nobody who lives is at work on it."""
        token = claims.holder(chunk.folder)
        return not token or self.workers.dead(token)

    def wanted(self, chunk: Chunk) -> bool:
        """Whether somebody is at work on it, or will be: who laid it lives."""
        return not self.free(chunk) or not self.workers.dead(chunk.laid.by)

    # --- laying down

    @contextmanager
    def planning(self, worker: Worker) -> Iterator[None]:
        """One worker at a time decides what is laid down; the others wait, it is short."""
        folder = self.work / "planning"
        folder.mkdir(parents=True, exist_ok=True)
        while (claim := claims.take(folder, worker.token, self.workers.dead)) is None:
            time.sleep(0.05)
        try:
            yield
        finally:
            claim.release()

    def lay(self, laid: Laid, checkpoint: Path | None = None) -> Chunk:
        """A new chunk; checkpoint: one that it goes on from, which is moved."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        temporary = self.folder / f".{name}"
        temporary.mkdir()
        try:
            files.write_json(temporary / "chunk.json", laid._asdict(), keep=True)
            if checkpoint is not None:
                checkpoint.rename(temporary / "at-000000.safetensors")
            temporary.rename(self.folder / name)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return Chunk(self.folder / name, laid)

    def drop(self, chunk: Chunk) -> None:
        """It is done with: its runs are in the store, or laid down anew. It goes at once, then bit by bit."""
        gone = self.folder / f".gone-{chunk.folder.name}-{secrets.token_hex(4)}"
        try:
            chunk.folder.rename(gone)
        except OSError:
            return  # another did
        shutil.rmtree(gone, ignore_errors=True)

    def clean(self) -> None:
        """Remove what workers left that are dead."""
        with suppress(OSError):
            for path in self.staged.iterdir():
                if self.workers.dead(path.name.partition("-")[0]):
                    shutil.rmtree(path, ignore_errors=True)
            for token in self.workers.tokens():
                if self.workers.dead(token):
                    self.workers.forget(token)

    # --- taking and going on

    def take(self, chunk: Chunk, worker: Worker) -> Claim | None:
        """The right to train it; None where somebody else has it."""
        return claims.take(chunk.folder, worker.token, self.workers.dead)

    def save(self, claim: Claim, at: Snapshot, how: Facts) -> None:
        """A checkpoint of all lanes, under the claim's number; those of earlier claims go."""
        tensors = named(at.state, at.clients, MODEL)
        tensors["diverged"] = at.diverged
        for metric, rows in at.history.items():
            apart = APART if metric.startswith(SITE) else ""
            tensors[f"{apart}rounds/{metric}"] = torch.tensor([r for r, _ in rows])
            tensors[f"{apart}values/{metric}"] = torch.from_numpy(np.stack([values for _, values in rows]))
        path = _at(claim)
        files.save(path, tensors, {"round": at.round, "how": how}, keep=True)
        _forget_before(path)

    def packed(self, chunk: Chunk) -> bytes | None:
        """Its newest checkpoint as it lies there, to be sent elsewhere; None: there is none."""
        for path in _checkpoints(chunk.folder):
            with suppress(OSError):
                return path.read_bytes()
        return None

    def keep(self, claim: Claim, data: bytes) -> None:
        """A checkpoint that another machine packed, under the claim's number; nothing, where the claim was passed."""
        if claim.holds():
            files.write(_at(claim), data, keep=True)
            _forget_before(_at(claim))

    def load(self, chunk: Chunk, device: torch.device) -> tuple[Snapshot, Facts] | None:
        """The newest checkpoint that is what was written, and how it was computed; None: there is none.

        A damaged one is moved aside and told, and training goes on from an older one, or from the start.
        """
        for path in _checkpoints(chunk.folder):
            try:
                return _snapshot(path, device)
            except Damaged as error:
                with suppress(OSError):
                    path.rename(path.with_name(f"damaged-{path.name}"))
                once(f"{error} ({chunk.folder}); moved aside, and trained again from what was there before")
            except OSError:
                continue
        return None

    # --- looking on

    def in_flight(self) -> dict[str, tuple[Chunk, int]]:
        """Every run in flight: its chunk, and its place there; of two, one that has begun."""
        chunks = self.chunks()
        key = tuple((chunk.folder.name, chunk.started) for chunk in chunks)
        if key != self._flying[0]:
            found: dict[str, tuple[Chunk, int]] = {}
            for chunk in sorted(chunks, key=lambda chunk: not chunk.started):
                for lane, run in enumerate(chunk.laid.runs):
                    found.setdefault(run, (chunk, lane))
            self._flying = key, found
        return self._flying[1]

    def look(self, chunk: Chunk) -> Seen | None:
        """How far a chunk is; None before its first checkpoint."""
        for path in _checkpoints(chunk.folder):
            with suppress(OSError, Damaged, KeyError, ValueError):
                stamp = path.stat().st_mtime_ns
                known = self._looked.get(chunk.folder)
                if known is None or known[0] != stamp:
                    about, tensors = files.part(path, ("rounds/", "values/", "diverged"))
                    seen = Seen(about["round"], tensors["diverged"].tolist(), _history(tensors))
                    known = self._looked[chunk.folder] = stamp, seen
                return known[1]
        return None

    def stamp(self, chunk: Chunk) -> int:
        """Changes whenever the chunk moves forward; 0 before its first checkpoint."""
        for path in _checkpoints(chunk.folder):
            with suppress(OSError):
                return path.stat().st_mtime_ns
        return 0


def _at(claim: Claim) -> Path:
    return claim.folder / f"at-{claim.number:06d}.safetensors"


def _forget_before(path: Path) -> None:
    """Checkpoints of earlier claims."""
    for old in _checkpoints(path.parent):
        if old.name < path.name:
            old.unlink(missing_ok=True)


def _history(tensors: dict[str, Any]) -> History:
    found = {}
    for apart in ("", APART):
        first = f"{apart}values/"
        for metric in [name.removeprefix(first) for name in tensors if name.startswith(first)]:
            rounds, values = tensors[f"{apart}rounds/{metric}"].tolist(), tensors[first + metric].numpy()
            found[metric] = list(zip(rounds, values, strict=True))  # a row an evaluation
    return History(found)


def _snapshot(path: Path, device: torch.device) -> tuple[Snapshot, Facts]:
    tensors, about = files.load(path), files.about(path)
    try:
        history = _history(tensors)
        diverged = tensors["diverged"].to(device)
        kept = {name: leaf.to(device) for name, leaf in tensors.items()}
        return Snapshot(int(about["round"]), *drawers(kept, MODEL), diverged, history), about.get("how", {})
    except (KeyError, ValueError, TypeError) as error:
        raise Damaged(f"{path.name} is damaged ({error})") from None
