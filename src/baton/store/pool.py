"""Work in flight: runs/.work/chunks/, a folder a chunk. Every process that works on the store takes from here.

A chunk is some runs that train together. Its folder holds what it is (chunk.json), whose it is (claim-N) and how far it
is (at-N.safetensors, all its lanes in one file, so that one rename moves them forward together).
"""

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from baton.errors import BadInput
from baton.index import RUN
from baton.nolinks import delete, is_file, is_folder, make_folder, names_in
from baton.notice import once
from baton.setting import Setting
from baton.store import claims, files
from baton.store.claims import Claim
from baton.store.columns import SITE
from baton.store.files import Damaged
from baton.store.history import History
from baton.store.snapshot import Snapshot, drawers, named
from baton.store.workers import Worker, Workers

MODEL = "model/"  # what the names of the model's leaves begin with
APART = "sites-"  # before those of metrics at every site: many numbers, which a look does without
AT = re.compile(r"at-(\d{6,9})\.safetensors")
CHUNK = re.compile(r"\d{20}-[0-9a-f]{8}")  # a chunk's folder
STAGE = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")  # of a worker, in which runs are written
WAIT_SECONDS = 5.0  # after which whoever waits is told for whom
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
    found = {int(match[1]): folder / name for name in names_in(folder) if (match := AT.fullmatch(name))}
    return [path for _, path in sorted(found.items(), reverse=True) if is_file(path)]


class Pool:
    """All chunks in flight, and who is at work on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / ".work"
        self.folder = self.work / "chunks"
        self.staged = self.work / "staged"  # folders of runs before they are renamed into place, by worker
        self.workers = Workers(root)
        self._known: dict[str, Laid | None] = {}  # by name: what is laid stays as it is; None: damaged
        self._looked: dict[Path, tuple[int, Seen]] = {}
        self._flying: tuple[object, dict[str, tuple[Chunk, int]]] = (), {}

    # --- what is there

    def chunks(self) -> list[Chunk]:
        """All chunks, in the order they were laid down."""
        listed = names_in(self.root, ".work", "chunks")
        names = [name for name in listed if CHUNK.fullmatch(name) and is_folder(self.folder / name)]
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
            laid = Laid(**files.read_json(folder / "chunk.json"))
            return laid if _is_sound(laid) else None
        except (OSError, BadInput, TypeError, ValueError):
            return None

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
        folder, began = make_folder(self.root, ".work", "planning"), time.monotonic()
        while (claim := claims.take(folder, worker.token, self.workers.dead)) is None:
            if time.monotonic() - began > WAIT_SECONDS:
                who = self.workers.read(claims.holder(folder))
                by = f"process {who.pid} on {who.host}" if who else "another process"
                once(f"waiting for {by}, which lays down runs in {self.root}")
            time.sleep(0.05)
        try:
            yield
        finally:
            claim.release()

    def lay(self, laid: Laid, checkpoint: Path | None = None) -> Chunk:
        """A new chunk; checkpoint: one that it goes on from, which is moved."""
        make_folder(self.root, ".work", "chunks")
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        temporary = self.folder / f".{name}"
        temporary.mkdir()
        try:
            files.write_json(temporary / "chunk.json", laid._asdict(), keep=True)
            if checkpoint is not None:
                checkpoint.rename(temporary / "at-000000.safetensors")
            temporary.rename(self.folder / name)
        except BaseException:
            delete(temporary)
            raise
        return Chunk(self.folder / name, laid)

    def drop(self, chunk: Chunk) -> None:
        """It is done with: its runs are in the store, or laid down anew. It goes at once, then bit by bit."""
        gone = self.folder / f".gone-{chunk.folder.name}-{secrets.token_hex(4)}"
        try:
            chunk.folder.rename(gone)
        except OSError:
            return  # another did
        delete(gone)

    def clean(self) -> None:
        """Remove what workers left that are dead."""
        for name in names_in(self.root, ".work", "staged"):
            if STAGE.fullmatch(name) and self.workers.dead(name.partition("-")[0]):
                delete(self.staged / name)
        for token in self.workers.tokens():
            if self.workers.dead(token):
                with suppress(OSError):
                    self.workers.forget(token)

    def stage(self, token: str) -> Path:
        """Return a new folder of a worker's, in which runs are written before they are renamed into place."""
        folder = make_folder(self.root, ".work", "staged") / f"{token}-{secrets.token_hex(4)}"
        folder.mkdir()
        return folder

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
            with suppress(OSError, Damaged):
                return files.read(path)
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
    newest_first = _checkpoints(path.parent)
    for old in newest_first[newest_first.index(path) + 1 :] if path in newest_first else ():
        old.unlink(missing_ok=True)


def _is_sound(laid: Laid) -> bool:
    """Return whether all fields are of their types, and each run's id is that of its setting."""
    texts = (laid.device, laid.precision, laid.by, *laid.how, *laid.how.values())
    counts = (laid.memory, laid.begun, laid.threads)
    if not all(isinstance(x, str) for x in texts) or not all(type(x) is int and 0 <= x < 1 << 63 for x in counts):
        return False
    if type(laid.share) not in (int, float) or not 0 <= laid.share <= 1:
        return False
    pairs = list(zip(laid.runs, laid.settings, strict=True))
    return bool(pairs) and all(RUN.fullmatch(run) and Setting.from_json(text).run_id == run for run, text in pairs)


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
