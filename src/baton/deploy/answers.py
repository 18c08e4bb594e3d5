"""Legs of the round under way that are decided: a file each, so that a server that dies loses the one leg it waits for.

A round is a function of its answers. So a server that begins it again is given those that are here, and goes on from
the first that is not, whatever the algorithm.
"""

import re
from pathlib import Path
from typing import NamedTuple

from baton.sites.visit import Answer
from baton.store import files

NAME = re.compile(r"leg-(\d+)\.(\d+)\.safetensors")


class Outcome(NamedTuple):
    """How one leg went."""

    client: int  # who was asked
    answer: Answer | None  # None: it is lost
    why: str = ""
    seconds: float = 0.0
    down: int = 0  # bytes to the site
    up: int = 0  # and back


class Answers:
    """Those of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, leg: str) -> Path:
        return self.folder / f"leg-{leg}.safetensors"

    def get(self, leg: str) -> Outcome | None:
        """What was decided about a leg; None: nothing yet."""
        path = self._path(leg)
        if not path.exists():
            return None
        try:
            tensors, about = files.load(path), files.about(path)
            samples, steps = about.pop("samples"), about.pop("steps")
            answer = Answer(tensors, samples, steps) if steps >= 0 else None
            return Outcome(answer=answer, **about)
        except (files.Damaged, KeyError, TypeError):
            path.unlink(missing_ok=True)  # as if it had not come: it is asked for again
            return None

    def put(self, leg: str, found: Outcome) -> None:
        """It is decided."""
        answer = found.answer
        facts = {"samples": answer.samples, "steps": answer.steps} if answer else {"samples": 0, "steps": -1}
        about = {**found._asdict(), **facts}
        del about["answer"]
        files.save(self._path(leg), answer.model if answer else {}, about, keep=True)

    def forget(self, round: int) -> None:
        """Rounds before this one are in the checkpoint."""
        for path in list(self.folder.iterdir()):
            if (match := NAME.fullmatch(path.name)) and int(match[1]) < round:
                path.unlink(missing_ok=True)
