"""Sequential or parallel, at which learning rate: a short probe decides, the bounds explain; its hit rate."""

from baton.advise.bounds import NEEDED, Bounds, bounds
from baton.advise.hits import Hit, Hits, counts, hits
from baton.advise.measure import Measure, of_setting, of_study
from baton.advise.verdict import CLEAR, CLOSE, LIKELY, NONE, Candidate, Side, Verdict, verdict

__all__ = [
    "CLEAR",
    "CLOSE",
    "LIKELY",
    "NEEDED",
    "NONE",
    "Bounds",
    "Candidate",
    "Hit",
    "Hits",
    "Measure",
    "Side",
    "Verdict",
    "bounds",
    "counts",
    "hits",
    "of_setting",
    "of_study",
    "verdict",
]
