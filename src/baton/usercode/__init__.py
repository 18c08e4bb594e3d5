"""A user's own code, named by `package.module:factory`: found, called, blamed in one line, told from other code."""

from baton.usercode.blame import Line, blamed, call, drawing, lines, own, place, told, written_in
from baton.usercode.fingerprint import fingerprints
from baton.usercode.found import imported
from baton.usercode.given import named

__all__ = [
    "Line",
    "blamed",
    "call",
    "drawing",
    "fingerprints",
    "imported",
    "lines",
    "named",
    "own",
    "place",
    "told",
    "written_in",
]
