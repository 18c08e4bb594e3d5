"""Which algorithm is ahead, by which of its candidates, and how sure that is: pure functions of scores."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from baton.advice.measure import Measure
from baton.verdict import Difference, RowErrors, Rows, difference, together

CLEAR, CLOSE, NONE = "clear", "too close to call", "every candidate diverged"

Tail = tuple[float, ...]  # the last evaluations of one run


Open = Rows | tuple[Mapping[int, RowErrors], Mapping[int, RowErrors]] | str | None  # what test rows leave open between
# two candidates; a text: why that is not known; None: nothing, as there are none


class Candidate(NamedTuple):
    """An algorithm with its rate and clip, and what its runs came to."""

    algorithm: str  # as a spec: parallel:weighting=size
    lr: float
    clip: float
    tails: tuple[Tail | None, ...]  # one a seed; None: diverged
    seeds: tuple[int, ...] = ()  # of the tails; none: numbered
    held: Tail = ()  # the same on samples that were held back, to choose by; none: chosen by the tails

    @property
    def diverged(self) -> bool:
        """Whether any of its runs did."""
        return any(tail is None for tail in self.tails)

    @property
    def score(self) -> float:
        """What it is chosen by; of one that did not diverge."""
        return float(np.mean(self.held)) if self.held else mean(self)

    def scores(self, by: Measure) -> dict[int, float]:
        """Seed -> the mean of its last evaluations, on the scale of the comparison; of one that did not diverge."""
        seeds = self.seeds or range(len(self.tails))
        ends = [float(np.mean(tail)) for tail in self.tails if tail]
        return {seed: by.scale(end) for seed, end in zip(seeds, ends, strict=True)}


class Side(NamedTuple):
    """An algorithm by its best candidate; no candidate if all diverged."""

    best: Candidate | None
    value: float  # mean of the metric over seeds and last evaluations
    spread: float  # standard deviation over seeds, on the scale of the comparison; inf: of one seed
    error: float  # spread / sqrt(seeds)
    candidates: int
    diverged: int  # among them
    edge: str  # "smallest" or "largest", if the best rate is that of the grid


class Verdict(NamedTuple):
    """Who is ahead; difference and error are on the scale of the comparison (decades where it is a log)."""

    winner: str | None  # the name of a side
    sure: str  # CLEAR, CLOSE or NONE
    difference: float  # of the best two; inf where all others diverged altogether
    error: float  # standard error of it, by seeds and test rows
    sides: dict[str, Side]
    apart: Difference | None = None  # the best two in full; None: there are no two

    @property
    def best(self) -> Candidate | None:
        """The candidate that is advised."""
        return self.sides[self.winner].best if self.winner else None


def verdict(
    sides: Mapping[str, Sequence[Candidate]],
    by: Measure,
    tested: Callable[[Candidate, Candidate, float, float], Open] | None = None,
    rates: Sequence[float] = (),
) -> Verdict:
    """The algorithms' best candidates against each other; {name: its candidates}.

    tested: what the test set leaves open between two candidates with these accuracies; rates: all that were tried,
    where some were given up. Clear: the best is ahead of the next by p values corrected for all pairs of
    algorithms, and by more than the margin.
    """
    found = {name: side(candidates, by, rates) for name, candidates in sides.items()}
    alive = [name for name in found if found[name].best is not None]
    if not alive:
        return Verdict(None, NONE, math.nan, math.nan, found)
    if len(alive) < 2:
        return Verdict(alive[0], CLEAR, math.inf, found[alive[0]].error, found)
    ranked = sorted(alive, key=lambda name: -by.sign * by.scale(found[name].value))
    first, second, *_ = ranked
    pairs = {(a, b): _apart(found[a], found[b], by, tested) for i, a in enumerate(ranked) for b in ranked[i + 1 :]}
    apart = together(pairs)[first, second]
    ahead = first if apart.mean > 0 else second if apart.mean < 0 else None
    apart = apart._replace(mean=abs(apart.mean))
    return Verdict(ahead, _sure(apart, by.margin), apart.mean, apart.error, found, apart)


def side(candidates: Sequence[Candidate], by: Measure, rates: Sequence[float] = ()) -> Side:
    """An algorithm's best candidate: the mean over seeds and last evaluations; one that diverged at a seed is out."""
    rates = sorted({*rates, *(c.lr for c in candidates)})
    sound = [c for c in candidates if not c.diverged]
    lost = len(candidates) - len(sound)
    if not sound:
        return Side(None, math.nan, math.nan, math.nan, len(candidates), lost, "")
    best = max(sound, key=lambda c: by.sign * c.score)  # of equals the first: clip off comes before clip on
    ends = {rates[0]: "smallest", rates[-1]: "largest"} if len(rates) > 1 else {}
    values = list(best.scores(by).values())
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.inf
    error = spread / math.sqrt(len(best.tails))
    return Side(best, mean(best), spread, error, len(candidates), lost, ends.get(best.lr, ""))


def mean(candidate: Candidate) -> float:
    """Of the metric, over seeds and last evaluations."""
    return float(np.mean([value for tail in candidate.tails for value in tail or ()]))


def _apart(
    one: Side, other: Side, by: Measure, tested: Callable[[Candidate, Candidate, float, float], Open] | None
) -> Difference:
    assert one.best is not None
    assert other.best is not None
    rows = tested(one.best, other.best, one.value, other.value) if tested else None
    known, why = (None, rows) if isinstance(rows, str) else (rows, "")
    return difference(one.best.scores(by), other.best.scores(by), by.sign, known, why)


def _sure(apart: Difference, margin: float) -> str:
    return CLEAR if apart.clear and apart.mean > margin else CLOSE
