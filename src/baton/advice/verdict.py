"""Which algorithm is ahead, by which of its candidates, and how sure that is: pure functions of scores."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from baton.advice.measure import Measure

CLEAR, LIKELY, CLOSE, NONE = "clear", "likely", "too close to call", "every candidate diverged"
ERRORS = {CLEAR: 3.0, LIKELY: 1.0}  # standard errors that the two best are apart, at least

Tail = tuple[float, ...]  # the last evaluations of one run


class Candidate(NamedTuple):
    """An algorithm with its rate and clip, and what its runs came to."""

    algorithm: str  # as a spec: parallel:weighting=size
    lr: float
    clip: float
    tails: tuple[Tail | None, ...]  # one a seed; None: diverged

    @property
    def diverged(self) -> bool:
        """Whether any of its runs did."""
        return any(tail is None for tail in self.tails)


class Side(NamedTuple):
    """An algorithm by its best candidate; no candidate if all diverged."""

    best: Candidate | None
    value: float  # mean of the metric over seeds and last evaluations
    spread: float  # standard deviation over both, on the scale of the comparison; inf: of one value
    error: float  # spread / sqrt(seeds): evaluations of one run are not independent, seeds are
    candidates: int
    diverged: int  # among them
    edge: str  # "smallest" or "largest", if the best rate is that of the grid


class Verdict(NamedTuple):
    """Who is ahead; difference and error are on the scale of the comparison (decades where it is a log)."""

    winner: str | None  # sequential or parallel
    sure: str  # CLEAR, LIKELY, CLOSE or NONE
    difference: float  # inf where one side diverged altogether
    error: float
    sides: dict[str, Side]

    @property
    def best(self) -> Candidate | None:
        """The candidate that is advised."""
        return self.sides[self.winner].best if self.winner else None


def verdict(sides: Mapping[str, Sequence[Candidate]], by: Measure) -> Verdict:
    """The two algorithms' best candidates against each other; {name: its candidates}."""
    found = {name: side(candidates, by) for name, candidates in sides.items()}
    alive = [name for name in found if found[name].best is not None]
    if not alive:
        return Verdict(None, NONE, math.nan, math.nan, found)
    if len(alive) < len(found):
        return Verdict(alive[0], CLEAR, math.inf, found[alive[0]].error, found)
    first, second = sorted(alive, key=lambda name: -by.sign * by.scale(found[name].value))
    difference = abs(by.scale(found[first].value) - by.scale(found[second].value))
    error = math.hypot(found[first].error, found[second].error)
    return Verdict(first if difference else None, _sure(difference, error, by.margin), difference, error, found)


def side(candidates: Sequence[Candidate], by: Measure) -> Side:
    """An algorithm's best candidate: the mean over seeds and last evaluations; one that diverged at a seed is out."""
    rates = sorted({c.lr for c in candidates})
    sound = [c for c in candidates if not c.diverged]
    lost = len(candidates) - len(sound)
    if not sound:
        return Side(None, math.nan, math.nan, math.nan, len(candidates), lost, "")
    best = max(sound, key=lambda c: by.sign * mean(c))  # of equals the first: clip off comes before clip on
    ends = {rates[0]: "smallest", rates[-1]: "largest"} if len(rates) > 1 else {}
    values = [by.scale(value) for tail in best.tails for value in tail or ()]
    spread = float(np.std(values)) if len(values) > 1 else math.inf
    error = spread / math.sqrt(len(best.tails))
    return Side(best, mean(best), spread, error, len(candidates), lost, ends.get(best.lr, ""))


def mean(candidate: Candidate) -> float:
    """Of the metric, over seeds and last evaluations."""
    return float(np.mean([value for tail in candidate.tails for value in tail or ()]))


def _sure(difference: float, error: float, margin: float) -> str:
    if difference <= margin:
        return CLOSE
    return next((word for word, errors in ERRORS.items() if difference > errors * error), CLOSE)
