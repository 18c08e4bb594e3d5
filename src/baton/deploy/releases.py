"""What a site has told of its samples with noise on it, in all runs: on its own disk, a line a leg.

A leg that is asked for again is told with the noise it was told with before, and counts once; one that is not the same
in everything has noise of its own, and counts. So a server learns nothing by asking again, or for something a little
different, that is not on these lines.
"""

import os
from pathlib import Path

from baton import privacy

SECRET, LINES = "secret", "released.csv"  # files beside what the site keeps


class Releases:
    """Of one site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines: dict[str, tuple[str, float]] | None = None  # leg -> (run, the noise multiplier)

    @property
    def secret(self) -> bytes:
        """What the site's noise is drawn from: made once, and never told."""
        path = self.folder / SECRET
        try:
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_bytes()
        with os.fdopen(made, "wb") as file:
            file.write(os.urandom(32))
            file.flush()
            os.fsync(file.fileno())
        return path.read_bytes()

    @property
    def lines(self) -> dict[str, tuple[str, float]]:
        """All legs that were told; a last line that was cut short is of a leg that was not."""
        if self._lines is None:
            path = self.folder / LINES
            rows = path.read_text().split("\n")[:-1] if path.exists() else []
            words = [row.split(",") for row in rows]
            self._lines = {leg: (run, float(noise)) for leg, run, noise in words}
        return self._lines

    def losses(self, but: str = "") -> float:
        """What was given away so far, in all runs but one."""
        return sum(privacy.loss(noise) for run, noise in self.lines.values() if run != but)

    def put(self, leg: str, run: str, noise: float) -> None:
        """One more, on disk before it is told."""
        with open(self.folder / LINES, "a") as file:
            file.write(f"{leg},{run},{noise!r}\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines[leg] = run, noise
