"""Work in flight: runs/.work/<plan>/ with the plan, and one checkpoint a chunk.

A checkpoint holds all lanes of its chunk, so that one rename moves them all forward together.
"""

import fcntl
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from baton.errors import BadInput
from baton.store import files
from baton.store.files import write
from baton.store.history import History
from baton.store.runs import Store
from baton.store.snapshot import Snapshot, drawers, named

MODEL, BEFORE = "model/", "state/"  # what the names of the model's leaves begin with; and began with at first


class Laid(NamedTuple):
    """Chunks laid down before training."""

    chunks: list[list[str]]  # run ids
    memory: int  # bytes they were cut to fit
    share: list[float]  # of the device, one entry a chunk
    precision: str
    begun: list[int]  # rounds that lie in the store as runs of their own, one entry a chunk


class Work:
    """A plan in flight."""

    def __init__(self, store: Store, name: str) -> None:
        self.folder = store.root / ".work" / name

    @classmethod
    def every(cls, store: Store) -> list["Work"]:
        """All plans in flight."""
        return [cls(store, path.parent.name) for path in sorted((store.root / ".work").glob("*/plan.json"))]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One process a plan. The system lets go of the lock however the process ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(f"runs: another process is training these runs ({self.folder}); wait for it") from None
            yield

    def plan(self) -> Laid | None:
        """The chunks, if they were laid down before."""
        path = self.folder / "plan.json"
        if not path.is_file():
            return None
        table = json.loads(path.read_text())
        try:
            return Laid(**{"begun": [0] * len(table["chunks"]), **table})
        except (TypeError, KeyError):
            hint = f"finish it there, or delete {str(self.folder)!r} to train these runs again"
            raise BadInput(f"runs: {str(path)!r} was written by another version; {hint}") from None

    def write_plan(self, laid: Laid) -> None:
        """Lay the chunks down, so that going on uses the same ones whatever memory is free then."""
        write(self.folder / "plan.json", json.dumps(laid._asdict()).encode(), keep=True)

    def _path(self, chunk: int) -> Path:
        return self.folder / f"{chunk:05d}.safetensors"

    def in_flight(self, chunk: int) -> bool:
        """Whether a checkpoint of this chunk lies there."""
        return self._path(chunk).is_file()

    def save(self, chunk: int, at: Snapshot) -> None:
        """A checkpoint of all lanes of a chunk."""
        tensors = named(at.state, at.clients, MODEL)
        tensors["diverged"] = at.diverged
        for metric, rows in at.history.items():
            tensors[f"rounds/{metric}"] = torch.tensor([r for r, _ in rows])
            tensors[f"values/{metric}"] = torch.from_numpy(np.stack([values for _, values in rows]))
        files.save(self._path(chunk), tensors, {"round": at.round}, keep=True)

    def load(self, chunk: int, device: torch.device) -> Snapshot:
        """The checkpoint of a chunk."""
        tensors = files.load(self._path(chunk))
        metrics = [name.removeprefix("values/") for name in tensors if name.startswith("values/")]
        rows = {
            m: zip(tensors.pop(f"rounds/{m}").tolist(), tensors.pop(f"values/{m}").numpy(), strict=True)
            for m in metrics
        }
        diverged = tensors.pop("diverged").to(device)
        kept = {name: leaf.to(device) for name, leaf in tensors.items()}
        old = any(name.startswith(BEFORE) for name in kept)
        round = files.about(self._path(chunk))["round"]
        return Snapshot(round, *drawers(kept, BEFORE if old else MODEL), diverged, History(rows))

    def take(self, chunk: int, other: "Work", number: int) -> None:
        """A checkpoint of another plan as one of this; it stays there too."""
        with files.replaced(self._path(chunk), keep=True) as temporary:
            shutil.copyfile(other._path(number), temporary)

    def drop(self, chunk: int) -> None:
        """The chunk's runs are in the store: its checkpoint is no longer needed."""
        self._path(chunk).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all checkpoints."""
        for path in self.folder.glob("*.safetensors"):
            path.unlink()

    def remove(self) -> None:
        """The whole plan is done."""
        shutil.rmtree(self.folder, ignore_errors=True)
