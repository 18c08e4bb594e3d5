"""What a site keeps of a run between its legs: on its own disk, a file a run, one version a leg.

The server says after which leg it wants to go on. So a leg that is sent again starts from what it started from, and one
that came back too late, or in a round that was taken back, leaves no trace. What a leg's name stands for is written
once: it is kept for as long as the run is, also where the version itself is gone.
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
        self.versions, self.written = [Version("", -1, first)], dict[str, str]()  # written: leg -> a hash of its order
        if path.exists():
            self.versions, self.written = _read(path, first)

    def after(self, leg: str) -> Params | None:
        """What was kept after that leg; None where nobody knows any more."""
        return next((version.kept for version in self.versions if version.leg == leg), None)

    def put(self, base: str, leg: str, round: int, kept: Params, about: str) -> None:
        """What is kept after `leg`, which followed `base`; versions that nobody can want any more go.

        about: a hash of all that the leg depended on. What was written before stays as it is.
        """
        if leg in self.written:
            return
        names = [version.leg for version in self.versions]
        before = self.versions[: names.index(base) + 1]
        old = [version for version in before if version.round < round]
        self.versions = [*old[-1:], *(v for v in before if v.round >= round), Version(leg, round, kept)]
        tensors = {f"{i}/{name}": leaf for i, v in enumerate(self.versions) for name, leaf in v.kept.items()}
        self.written[leg] = about
        told = {"legs": [[v.leg, v.round] for v in self.versions], "written": self.written}
        files.save(self.path, tensors, told, keep=True)


def _read(path: Path, first: Params) -> tuple[list[Version], dict[str, str]]:
    tensors, about = files.load(path), files.about(path)
    versions = [
        Version(leg, round, {name: tensors[f"{i}/{name}"] for name in first})
        for i, (leg, round) in enumerate(about["legs"])
    ]
    return versions, about["written"]
