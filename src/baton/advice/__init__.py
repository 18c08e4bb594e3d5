"""Sequential or parallel, at which learning rate: a short probe decides, the bounds explain; its hit rate."""

from baton.advice.bounds import NEEDED, Bounds, bounds
from baton.advice.hits import Hit, Hits, counts, hits
from baton.advice.measure import Measure, of_setting, of_study
from baton.advice.verdict import CLEAR, CLOSE, NONE, Candidate, Side, Verdict, verdict

__all__ = [
    "CLEAR",
    "CLOSE",
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
