"""A store as a report reads it: each run once, and a damaged one named and left out rather than the end of it all."""

from collections.abc import Collection
from pathlib import Path

from baton.errors import BadInput
from baton.store import Run, Store


class Reading(Store):
    """A store that keeps what it read until it changes."""

    def __init__(self, root: str | Path, kin: Collection[str] = ()) -> None:
        super().__init__(root)
        self.relevant = kin  # of these runs beginnings are looked for
        self.damaged: dict[str, str] = {}  # run id -> what is wrong with it
        self._kept: dict[str, tuple[tuple[int, ...], Run]] = {}

    def stamp(self, run_id: str) -> tuple[int, ...]:
        """Changes whenever the run does; () where nothing of it is there."""
        folder = self.folder(run_id)
        found = []
        for name in ("metrics.csv", "state.safetensors"):
            try:
                found.append((folder / name).stat().st_mtime_ns)
            except OSError:
                continue
        return tuple(found)

    def read(self, run_id: str, metrics: bool = True) -> Run:
        """A stored run, complete or not."""
        stamp, folder = self.stamp(run_id), self.folder(run_id)
        for name in ("setting.json", "metrics.csv") if self.complete(run_id) else ():
            if not (folder / name).is_file():
                raise BadInput(f"run: {run_id}: no {name} beside its state; delete {str(folder)!r} to train it again")
        kept = self._kept.get(run_id)
        if kept is None or kept[0] != stamp:
            kept = self._kept[run_id] = stamp, _checked(super().read(run_id, metrics), run_id)
        return kept[1]

    def sound(self, run_id: str) -> Run | None:
        """A run; None where there is none, or nothing that can be read. Complete ones are told then."""
        if not self.stamp(run_id):
            return None
        try:
            return self.read(run_id)
        except (ValueError, KeyError, OSError) as error:  # BadInput and what a half-written file can lead to
            if self.complete(run_id):
                told = str(error) if isinstance(error, BadInput) else f"run: {run_id}: {error}"
                self.damaged[run_id] = told.splitlines()[0]
            return None

    def kin(self) -> dict[str, dict[int, str]]:
        """Complete runs that differ in their rounds only, the relevant and sound ones."""
        every = {shared: runs for shared, runs in super().kin().items() if shared in self.relevant}
        return {s: {r: run for r, run in runs.items() if self.sound(run) is not None} for s, runs in every.items()}


def _checked(run: Run, run_id: str) -> Run:
    rounds = run.metrics.get("round")
    if rounds is None or not len(rounds):
        raise BadInput(f"run: {run_id}: metrics.csv is damaged: no rounds in it; delete the run to train it again")
    if run.setting.run_id != run_id:
        raise BadInput(f"run: {run_id}: setting.json is that of {run.setting.run_id}; delete the run to train it again")
    if run.complete and run.diverged is None and rounds[-1] != run.setting.rounds:
        what = f"metrics.csv is damaged: it ends at round {rounds[-1]:g} of {run.setting.rounds}"
        raise BadInput(f"run: {run_id}: {what}; delete the run to train it again")
    return run
