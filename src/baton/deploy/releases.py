"""What a site has told of its samples with noise on it, in all runs: on its own disk, a line a leg.

A leg that is asked for again is told with the noise it was told with before, and counts once; one that is not the same
in everything has noise of its own, and counts. So a server learns nothing by asking again, or for something a little
different, that is not on these lines.
"""

import math
import os
from pathlib import Path

from baton import privacy
from baton.deploy.book import Book, Lock, Unreadable
from baton.store import files

SECRET, LINES = "secret", "released.csv"  # files beside what the site keeps
LENGTH = 32  # bytes of a secret


class Releases:
    """Of one site, by all of its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, Lock(folder)
        self.book = Book(folder / LINES, self.lock, _parse)

    @property
    def secret(self) -> bytes:
        """What the site's noise is drawn from: made once, and never told."""
        path = self.folder / SECRET
        with self.lock:
            if not path.exists():
                with files.replaced(path, keep=True) as temporary:
                    temporary.touch(0o600, exist_ok=False)
                    temporary.write_bytes(os.urandom(LENGTH))
        found = files.read(path)
        if len(found) != LENGTH:
            what = f"got {len(found)} bytes; expected {LENGTH}. Put the file back from a copy"
            raise Unreadable(f"{path}: {what}; if there is none, remove it: noise is drawn from a new one then")
        return found

    def check(self) -> None:
        """Raise Unreadable if the secret or the lines are not what was written; what is not there yet is not made."""
        if (self.folder / SECRET).exists():
            _ = self.secret
        self.book.read()

    @property
    def lines(self) -> dict[str, tuple[str, float]]:
        """All legs that were told: leg -> (run, noise multiplier)."""
        return {leg: (run, noise) for leg, run, noise in self.book.read()}

    def losses(self, but: str = "") -> float:
        """What was given away so far, in all runs but one."""
        return sum(privacy.loss(noise) for run, noise in self.lines.values() if run != but)

    def put(self, leg: str, run: str, noise: float) -> None:
        """One more, on disk before it is told."""
        self.book.add(f"{leg},{run},{noise!r}")


def _parse(line: str) -> tuple[str, str, float]:
    leg, run, noise = line.split(",")
    if not 0 <= float(noise) < math.inf:
        raise ValueError(noise)
    return leg, run, float(noise)
