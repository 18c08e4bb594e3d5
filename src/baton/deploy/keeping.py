"""What a site keeps of a run between its legs: on its own disk, a file a run, one version a leg.

The server says after which leg it wants to go on. So a leg that is sent again starts from what it started from, and one
that came back too late, or in a round that was taken back, leaves no trace.
"""

from pathlib import Path
from typing import NamedTuple

from baton.lanes import Params
from baton.store import files


class Version(NamedTuple):
    """What was kept after a leg."""

    leg: str
    round: int
    kept: Params


class Keeping:
    """The versions of one run."""

    def __init__(self, path: Path, first: Params) -> None:
        """first: before any leg."""
        self.path = path
        self.versions = _read(path, first) if path.exists() else [Version("", -1, first)]

    def after(self, leg: str) -> Params | None:
        """What was kept after that leg; None where nobody knows any more."""
        return next((version.kept for version in self.versions if version.leg == leg), None)

    def put(self, base: str, leg: str, round: int, kept: Params) -> None:
        """What is kept after `leg`, which followed `base`; versions that nobody can want any more go."""
        names = [version.leg for version in self.versions]
        before = self.versions[: names.index(base) + 1]
        old = [version for version in before if version.round < round]
        self.versions = [*old[-1:], *(v for v in before if v.round >= round), Version(leg, round, kept)]
        tensors = {f"{i}/{name}": leaf for i, v in enumerate(self.versions) for name, leaf in v.kept.items()}
        files.save(self.path, tensors, {"legs": [[v.leg, v.round] for v in self.versions]}, keep=True)


def _read(path: Path, first: Params) -> list[Version]:
    tensors = files.load(path)
    legs = files.about(path)["legs"]
    return [
        Version(leg, round, {name: tensors[f"{i}/{name}"] for name in first}) for i, (leg, round) in enumerate(legs)
    ]
