"""A store as a report reads it: each run once, and a damaged one named and left out rather than the end of it all."""

from collections.abc import Collection
from pathlib import Path

from baton.errors import BadInput
from baton.store import Damaged, Run, Store
from baton.store.runs import REPAIR


class Reading(Store):
    """A store that keeps what it read until it changes."""

    def __init__(self, root: str | Path, kin: Collection[str] = ()) -> None:
        super().__init__(root)
        self.relevant = kin  # of these runs beginnings are looked for
        self.damaged: dict[str, str] = {}  # run id -> what is wrong with it
        self._kept: dict[str, tuple[tuple[int, ...], Run]] = {}

    def read(self, run_id: str) -> Run:
        """A stored run, complete or not."""
        stamp, kept = self.stamp(run_id), self._kept.get(run_id)
        if kept is None or kept[0] != stamp:
            kept = self._kept[run_id] = stamp, _checked(super().read(run_id), run_id)
        return kept[1]

    def sound(self, run_id: str) -> Run | None:
        """A run; None where there is none, or nothing that can be read. Complete ones are told then."""
        if not self.stamp(run_id):
            return None
        try:
            return self.read(run_id)
        except BadInput as error:
            if self.complete(run_id):
                self.damaged[run_id] = str(error).splitlines()[0]
            return None

    def kin(self) -> dict[str, dict[int, str]]:
        """Complete runs that differ in their rounds only, the relevant and sound ones."""
        every = {shared: runs for shared, runs in super().kin().items() if shared in self.relevant}
        return {s: {r: run for r, run in runs.items() if self.sound(run) is not None} for s, runs in every.items()}


def _checked(run: Run, run_id: str) -> Run:
    rounds = run.metrics.get("round")
    if rounds is None or not len(rounds):
        raise Damaged(f"run: {run_id}: metrics.csv is damaged: no rounds in it; {REPAIR}")
    if run.setting.run_id != run_id:
        raise Damaged(f"run: {run_id}: setting.json is that of {run.setting.run_id}; {REPAIR}")
    if run.complete and run.diverged is None and rounds[-1] != run.setting.rounds:
        what = f"metrics.csv is damaged: it ends at round {rounds[-1]:g} of {run.setting.rounds}"
        raise Damaged(f"run: {run_id}: {what}; {REPAIR}")
    return run
