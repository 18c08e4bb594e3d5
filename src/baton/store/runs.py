"""The store: runs/<run_id>/ with setting.json, metrics.csv and state.safetensors; every file appears whole or not.

A run is complete when its state.safetensors is there: it is written last. It holds the model under its own names, and
what the server and the clients keep under server/ and clients/.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import State
from baton.setting import Setting, kin
from baton.store import files
from baton.store.files import write
from baton.store.metrics import Metrics, from_csv, history_of, tables, to_csv
from baton.store.snapshot import CLIENTS, SERVER, Snapshot, drawers, named


class Run(NamedTuple):
    """One stored run."""

    setting: Setting
    metrics: Metrics
    complete: bool
    diverged: int | None  # the round, if any
    way: dict[str, float] | None = None  # the mean longest way through a round: ledger.Way; None: not known


class About(NamedTuple):
    """What state.safetensors says of itself."""

    run: str
    round: int  # of the state
    diverged: int | None
    precision: str = ""  # "": of before it was written down
    way: dict[str, float] | None = None


class Store:
    """A folder of runs."""

    def __init__(self, root: str | Path = "runs") -> None:
        self.root = Path(root)
        if self.root.exists() and not self.root.is_dir():
            raise BadInput(f"runs: {str(self.root)!r} is a file; a folder is right")

    def folder(self, run_id: str) -> Path:
        """runs/<run_id>."""
        return self.root / run_id

    def _state(self, run_id: str) -> Path:
        return self.folder(run_id) / "state.safetensors"

    def complete(self, run_id: str) -> bool:
        """Whether the run has been trained to its end."""
        return self._state(run_id).is_file()

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
            table = from_csv(folder / "metrics.csv") if metrics else {}
            about = self.about(run_id) if self.complete(run_id) else None
        except FileNotFoundError as error:
            raise BadInput(
                f"run: {run_id}: no {Path(error.filename).name} in {str(folder)!r}; train it first"
            ) from None
        except BadInput as error:
            raise BadInput(f"run: {run_id}: {error}") from None
        return Run(setting, table, True, about.diverged, about.way) if about else Run(setting, table, False, None)

    def about(self, run_id: str) -> About:
        """What a complete run says of itself."""
        found = files.about(self._state(run_id))
        return About(**{field: found[field] for field in About._fields if field in found})

    def params(self, run_id: str) -> Params:
        """The final model of a complete run, without the lane axis."""
        return files.load(self._state(run_id), but=(SERVER, CLIENTS))

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
                if rounds < s.rounds and rounds % s.eval_every == 0 and self.about(run).precision == precision:
                    found[s.run_id] = rounds
        return found

    def resume(self, settings: Sequence[Setting], rounds: int, device: torch.device) -> Snapshot:
        """The beginnings of these runs as lanes of one snapshot, to go on from."""
        every = self.kin()
        ids = [every[s.kin][rounds] for s in settings]
        runs = [self.read(run) for run in ids]
        kept = [files.load(self._state(run)) for run in ids]
        lanes = {name: torch.stack([each[name] for each in kept]).to(device) for name in kept[0]}
        diverged = torch.tensor([-1 if run.diverged is None else run.diverged for run in runs], device=device)
        return Snapshot(rounds, *drawers(lanes), diverged, history_of([run.metrics for run in runs]))

    def show(self, settings: Sequence[Setting], at: Snapshot) -> None:
        """Metrics so far, for whoever looks while training goes on."""
        diverged, found = at.diverged.tolist(), tables(at.history)
        for lane, setting in enumerate(settings):
            folder = self.folder(setting.run_id)
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / "setting.json").is_file():
                write(folder / "setting.json", setting.to_json().encode())
            write(folder / "metrics.csv", to_csv(found, lane, diverged[lane]))

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
        state = State(*({name: leaf.cpu() for name, leaf in drawer.items()} for drawer in at.state))
        kept = named(state, at.clients)  # what clients keep comes over lane by lane: it may be large
        for lane, setting in enumerate(settings):
            lost = diverged[lane] if diverged[lane] >= 0 else None
            about = About(
                setting.run_id, at.round if lost is None else lost, lost, precision, ways[lane] if ways else None
            )
            files.save(self._state(setting.run_id), {name: leaf[lane] for name, leaf in kept.items()}, about._asdict())
        os.sync()

    def log(self, entry: dict[str, Any]) -> None:
        """One line in runs/journal.jsonl: what ran when, on what, for how long."""
        with open(self.root / "journal.jsonl", "a") as file:
            file.write(json.dumps(entry, sort_keys=True) + "\n")
