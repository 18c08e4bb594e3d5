"""Legs of the round under way that are decided: a file each, so that a server that dies loses the one leg it waits for.

A round is a function of its answers. So a server that begins it again is given those that are here, and goes on from
the first that is not, whatever the algorithm.
"""

import re
from pathlib import Path
from typing import NamedTuple

from baton.lanes import Params
from baton.nolinks import is_file
from baton.sites.visit import Answer
from baton.store import files

MODEL, SQUARE = "model/", "square/"  # what the names of an answer's leaves begin with
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
        if not is_file(path):
            return None
        try:
            tensors, about = files.load(path), files.about(path)
            samples, steps = about.pop("samples"), about.pop("steps")
            answer = Answer(_of(MODEL, tensors), samples, steps, _of(SQUARE, tensors)) if steps >= 0 else None
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
        parts = {MODEL: answer.model, SQUARE: answer.square} if answer else {}
        tensors = {part + name: leaf for part, leaves in parts.items() for name, leaf in leaves.items()}
        files.save(self._path(leg), tensors, about, keep=True)

    def forget(self, round: int) -> None:
        """Rounds before this one are in the checkpoint."""
        for path in list(self.folder.iterdir()):
            if (match := NAME.fullmatch(path.name)) and int(match[1]) < round:
                path.unlink(missing_ok=True)


def _of(part: str, tensors: Params) -> Params:
    return {name.removeprefix(part): leaf for name, leaf in tensors.items() if name.startswith(part)}
