"""The store: runs/<run_id>/ with setting.json, metrics.csv and state.safetensors; every file appears whole or not.

A run is complete when its state.safetensors is there: it is written last. Work in flight lies in runs/.work/<plan>/:
the plan, and one checkpoint a chunk that holds all its lanes, so that one rename moves them all forward together.
"""

import csv
import fcntl
import json
import os
import shutil
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from pydantic_core import to_json
from safetensors.torch import load_file, save

from baton.errors import BadInput
from baton.ledger import COLUMNS as BYTES
from baton.setting import Setting, kin
from baton.simulate.engine import Snapshot
from baton.simulate.evaluate import COLUMNS, EXACT

Metrics = dict[str, NDArray[np.float64]]  # column -> [rows]; nan where a cell is empty


class Tables(NamedTuple):
    """The metrics of all lanes, by round."""

    rounds: list[int]  # at which anything was taken
    texts: list[str]  # the same, to print
    taken: dict[str, tuple[list[int], NDArray[np.float64]]]  # metric -> places of its rounds in these, values [L, ...]


class Run(NamedTuple):
    """One stored run."""

    setting: Setting
    metrics: Metrics
    complete: bool
    diverged: int | None  # the round, if any
    way: dict[str, float] | None = None  # the mean longest way through a round: ledger.Way; None: not known


def write(path: Path, data: bytes, keep: bool = False) -> None:
    """Atomically: a reader sees the old file or the new one. keep: also safe against a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb") as file:
        file.write(data)
        if keep:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)


class Store:
    """A folder of runs."""

    def __init__(self, root: str | Path = "runs") -> None:
        self.root = Path(root)
        if self.root.exists() and not self.root.is_dir():
            raise BadInput(f"runs: {str(self.root)!r} is a file; a folder is right")

    def folder(self, run_id: str) -> Path:
        """runs/<run_id>."""
        return self.root / run_id

    def complete(self, run_id: str) -> bool:
        """Whether the run has been trained to its end."""
        return (self.folder(run_id) / "state.safetensors").is_file()

    def ids(self) -> list[str]:
        """Every run in the store, complete or not."""
        return sorted(path.parent.name for path in self.root.glob("*/setting.json"))

    def find(self, prefix: str) -> str:
        """The run whose id starts so."""
        found = [run for run in self.ids() if run.startswith(prefix)]
        if len(found) != 1:
            what = f"{len(found)} runs start so" if found else f"no such run in {str(self.root)!r}"
            raise BadInput(f"run: {prefix!r}: {what}; 'baton list runs' shows the ids")
        return found[0]

    def read(self, run_id: str, metrics: bool = True) -> Run:
        """A stored run, complete or not; without its metrics for those who only list."""
        folder = self.folder(run_id)
        try:
            setting = Setting.from_json((folder / "setting.json").read_text())
            table = _read_metrics(folder / "metrics.csv") if metrics else {}
            done = self.complete(run_id)
            about = self._about(run_id) if done else {}
        except FileNotFoundError as error:
            raise BadInput(
                f"run: {run_id}: no {Path(error.filename).name} in {str(folder)!r}; train it first"
            ) from None
        except BadInput as error:
            raise BadInput(f"run: {run_id}: {error}") from None
        return Run(setting, table, done, about.get("diverged"), about.get("way"))

    def _about(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_metadata(self.folder(run_id) / "state.safetensors"))
        return found

    def kin(self) -> dict[str, dict[int, str]]:
        """Complete runs that differ in their rounds only: {what they share: {rounds: run id}}."""
        found: dict[str, dict[int, str]] = {}
        for path in sorted(self.root.glob("*/state.safetensors")):
            setting = path.parent / "setting.json"
            if setting.is_file():
                shared, rounds = kin(setting.read_text())
                found.setdefault(shared, {})[rounds] = path.parent.name
        return found

    def begun(self, settings: Sequence[Setting], precision: str) -> dict[str, int]:
        """Rounds of each run that are trained already, because the store holds its beginning as a run of its own."""
        every = self.kin()
        found = dict.fromkeys((s.run_id for s in settings), 0)
        for s in settings:
            for rounds, run in sorted(every.get(s.kin, {}).items()):
                if rounds < s.rounds and rounds % s.eval_every == 0 and self._about(run).get("precision") == precision:
                    found[s.run_id] = rounds
        return found

    def resume(self, settings: Sequence[Setting], rounds: int, device: torch.device) -> Snapshot:
        """The beginnings of these runs as lanes of one snapshot, to go on from."""
        every = self.kin()
        ids = [every[s.kin][rounds] for s in settings]
        runs = [self.read(run) for run in ids]
        states = [self.params(run) for run in ids]
        state = {name: torch.stack([each[name] for each in states]).to(device) for name in states[0]}
        diverged = torch.tensor([-1 if run.diverged is None else run.diverged for run in runs], device=device)
        return Snapshot(rounds, state, diverged, _history(runs))

    def params(self, run_id: str) -> dict[str, torch.Tensor]:
        """The final state of a complete run, without the lane axis."""
        return load_file(self.folder(run_id) / "state.safetensors")

    def show(self, settings: Sequence[Setting], at: Snapshot) -> None:
        """Metrics so far, for whoever looks while training goes on."""
        diverged, tables = at.diverged.tolist(), _tables(at)
        for lane, setting in enumerate(settings):
            folder = self.folder(setting.run_id)
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "setting.json").is_file():
                write(folder / "setting.json", setting.to_json().encode())
            write(folder / "metrics.csv", _metrics_csv(tables, lane, diverged[lane]))

    def finish(
        self,
        settings: Sequence[Setting],
        at: Snapshot,
        precision: str = "fp32",
        ways: Sequence[dict[str, float]] | None = None,
    ) -> None:
        """The files of runs that reached their end; state.safetensors last, since it says so.

        ways: the mean way through a round of each, for the time that it would take.
        """
        self.show(settings, at)
        diverged = at.diverged.tolist()
        state = {name: leaf.cpu() for name, leaf in at.state.items()}
        for lane, setting in enumerate(settings):
            about = {
                "run": setting.run_id,
                "round": at.round if diverged[lane] < 0 else diverged[lane],
                "diverged": None if diverged[lane] < 0 else diverged[lane],
                "precision": precision,
            } | ({"way": ways[lane]} if ways else {})
            tensors = {name: leaf[lane].contiguous() for name, leaf in state.items()}
            write(self.folder(setting.run_id) / "state.safetensors", _pack(tensors, about))
        os.sync()

    def log(self, entry: dict[str, Any]) -> None:
        """One line in runs/journal.jsonl: what ran when, on what, for how long."""
        with open(self.root / "journal.jsonl", "a") as file:
            file.write(json.dumps(entry, sort_keys=True) + "\n")


class Laid(NamedTuple):
    """Chunks laid down before training."""

    chunks: list[list[str]]  # run ids
    memory: int  # bytes they were cut to fit
    share: list[float]  # of the device, one entry a chunk
    precision: str
    begun: list[int]  # rounds that lie in the store as runs of their own, one entry a chunk


class Work:
    """A plan in flight: runs/.work/<plan>/."""

    def __init__(self, store: Store, name: str) -> None:
        self.folder = store.root / ".work" / name

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
        tensors = {f"state/{name}": leaf.cpu().contiguous() for name, leaf in at.state.items()}
        tensors["diverged"] = at.diverged.cpu()
        for metric, series in at.history.items():
            kept = [(r, values) for r, values in series if r <= at.round]
            tensors[f"rounds/{metric}"] = torch.tensor([r for r, _ in kept])
            tensors[f"values/{metric}"] = torch.from_numpy(np.stack([values for _, values in kept]))
        write(self._path(chunk), _pack(tensors, {"round": at.round}), keep=True)

    def load(self, chunk: int, device: torch.device) -> Snapshot:
        """The checkpoint of a chunk."""
        path = self._path(chunk)
        round = json.loads(_metadata(path))["round"]
        tensors = load_file(path)
        state = {name[6:]: leaf.to(device) for name, leaf in tensors.items() if name.startswith("state/")}
        metrics = [name[7:] for name in tensors if name.startswith("values/")]
        history = {
            m: list(zip(tensors[f"rounds/{m}"].tolist(), tensors[f"values/{m}"].numpy(), strict=True)) for m in metrics
        }
        return Snapshot(round, state, tensors["diverged"].to(device), history)

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


def _pack(tensors: dict[str, torch.Tensor], about: dict[str, Any]) -> bytes:
    # One metadata key: safetensors writes several in no fixed order, and the same run must give the same bytes.
    data: bytes = save(tensors, {"baton": json.dumps(about, sort_keys=True)})
    return data


def _metadata(path: Path) -> str:
    try:
        with safetensors.safe_open(path, "pt") as file:
            return str(file.metadata()["baton"])
    except (safetensors.SafetensorError, TypeError, KeyError):
        raise BadInput(f"{path.name} is damaged; delete {str(path.parent)!r} to train again") from None


def _history(runs: Sequence[Run]) -> dict[str, list[tuple[int, NDArray[np.float64]]]]:
    """Metrics of several runs by round, nan where a run has none."""
    found: dict[str, list[tuple[int, NDArray[np.float64]]]] = {}
    for metric in [name for name in runs[0].metrics if name != "round" and all(name in run.metrics for run in runs)]:
        series = [
            dict(zip(run.metrics["round"].astype(int).tolist(), run.metrics[metric], strict=True)) for run in runs
        ]
        taken = sorted({r for each in series for r, value in each.items() if not np.isnan(value)})
        if taken:
            found[metric] = [(r, np.array([each.get(r, np.nan) for each in series])) for r in taken]
    return found


def _tables(at: Snapshot) -> Tables:
    kept = {name: [(r, v) for r, v in rows if r <= at.round] for name, rows in at.history.items()}
    rounds = sorted({r for rows in kept.values() for r, _ in rows})
    place = {r: i for i, r in enumerate(rounds)}
    taken = {name: ([place[r] for r, _ in rows], np.stack([v for _, v in rows], 1)) for name, rows in kept.items()}
    return Tables(rounds, list(map(str, rounds)), taken)


def _texts(values: NDArray[np.float64]) -> list[str]:
    """Each number in the fewest digits that give it back."""
    if len(values) == 0 or not np.isfinite(values).all():
        return [repr(value) for value in values.tolist()]
    return to_json(values.tolist()).decode()[1:-1].split(",")  # a million a second were too few for repr


def _metrics_csv(tables: Tables, lane: int, diverged: int) -> bytes:
    """Rows by round; empty where a metric was not taken, nan from the round a run diverged at, which ends it."""
    header = [*COLUMNS, *(name for name in (*EXACT, *BYTES) if name in tables.taken)]
    columns = [tables.texts]
    for name in header:
        places, values = tables.taken.get(name, ([], np.zeros((lane + 1, 0))))
        cells = _texts(values[lane])
        if len(places) < len(tables.rounds):
            found, cells = cells, [""] * len(tables.rounds)
            for place, cell in zip(places, found, strict=True):
                cells[place] = cell
        columns.append(cells)
    if diverged >= 0:
        end = bisect_left(tables.rounds, diverged)
        last = ["nan" if name in tables.taken else "" for name in header]
        columns = [[*column[:end], cell] for column, cell in zip(columns, [str(diverged), *last], strict=True)]
    lines = map(",".join, zip(*columns, strict=True))
    return "\n".join([",".join(["round", *header]), *lines, ""]).encode()


def _read_metrics(path: Path) -> Metrics:
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    if any(len(row) != len(header) for row in rows):
        raise BadInput(f"{path.name} is damaged; delete {str(path.parent)!r} to train again")
    return {name: np.array([float(row[i] or "nan") for row in rows]) for i, name in enumerate(header)}
