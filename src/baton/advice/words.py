"""Advice in plain words."""

import math
from collections.abc import Mapping
from shlex import quote
from typing import Any

from baton.advice.bounds import Bounds
from baton.advice.hits import Hit, Hits, counts
from baton.advice.measure import Measure
from baton.advice.verdict import CLOSE, NONE, Candidate, Side, Verdict
from baton.verdict import words as told

TERMS = {
    "optimisation": "optimisation (the way from the start)",
    "noise": "minibatch noise",
    "participation": "drawing S of M clients",
    "drift_noise": "drift by noise",
    "drift_heterogeneity": "drift by heterogeneity",
}
LIMITATION = (
    "The bounds explain, the probe decides: sequential's bound divides drift by S, however different the clients are, "
    "so it is hardly ever the larger one; in measurements with moderately different clients parallel is often ahead."
)
RATE = "the rate is the best of a run as short as the probe; a longer run may want a smaller one"


def advice(found: Verdict) -> str:
    """Who, with what, and how sure."""
    best = found.best
    if found.sure == NONE:
        return "no advice: every candidate diverged; smaller learning rates are wanted"
    if best is None:
        return "no advice: the best two came to the same"
    ahead = f"{found.winner} with {knobs(best)}"
    return f"too close to call; ahead by a little: {ahead}" if found.sure == CLOSE else f"{ahead} ({found.sure})"


def knobs(candidate: Candidate) -> str:
    """`lr = 0.1 and clip = 10`."""
    clip = f"clip = {candidate.clip:g}" if candidate.clip else "no clip"
    return f"lr = {candidate.lr:.4g} and {clip}"


def standing(name: str, own: Side, by: Measure) -> str:
    """An algorithm's best candidate and its score."""
    gone = f"{own.diverged} of {own.candidates} candidates diverged"
    if own.best is None:
        return f"{name}: {gone}"
    return f"{name}: {value(own.value, by)} +- {spread(own.spread, by)} with {knobs(own.best)}; {gone}"


def why(found: Verdict, by: Measure) -> str:
    """The numbers behind how sure it is."""
    if math.isnan(found.difference):
        return "nothing to compare"
    if math.isinf(found.difference):
        return "all others diverged at every rate"
    if found.apart is None or found.apart.why:
        why = f": {found.apart.why}" if found.apart else ""
        return f"the best two are {spread(found.difference, by)} apart, with no interval to judge it by{why}"
    unit = "decades" if by.log else "points" if by.metric.endswith("accuracy") else ""
    text = f"the best two are {spread(found.difference, by)} apart ({told.spelled(found.apart, unit)})"
    return text + (f"; up to {by.margin:g} is taken for nothing" if by.margin else "")


def warnings(found: Verdict, evaluations: int, seeds: int) -> list[str]:
    """What to be careful about."""
    said = [
        f"{name}: the best learning rate, {own.best.lr:.4g}, is the {own.edge} of the grid; a better one may lie beyond"
        for name, own in found.sides.items()
        if own.best is not None and own.edge
    ]
    if seeds == 1:
        said.append("one seed: there is no interval, and nothing is called clear")
    if evaluations < 3:
        said.append(f"a score is the mean of {many(evaluations, 'evaluation')}: the probe is very short")
    return said


def explained(found: Bounds, winner: str | None) -> list[str]:
    """What the bounds say, what decides them, what they rest on, and whether the probe agrees."""
    what = "E|grad F|^2" if found.case == "nonconvex" else "E[F - F*]"
    said = [
        f"{side}: {what} <= {result.total:.3g} at lr = {result.eta:.3g}, mostly {TERMS[result.dominant()]}"
        for side, result in found.found.items()
    ]
    case = found.case.replace("_", " ")
    if found.factor < 1.01:
        said.append(f"equal to 1% ({case} case)")
    else:
        agree = "" if winner is None else ", as the probe has it" if winner == found.smaller else ", unlike the probe"
        where = f"most of it in {TERMS[found.apart]}"
        said.append(f"{found.smaller}'s is smaller by a factor of {found.factor:.3g}, {where} ({case} case){agree}")
    steps = ", ".join(f"{_steps(K)} ({side})" for side, K in found.useful_steps.items())
    said.append(f"local steps (K) lower the leading term up to about {steps}")
    if found.vacuous:
        whose = " and ".join(f"{side}'s" for side in found.vacuous)
        many_ = "bounds say" if len(found.vacuous) > 1 else "bound says"
        said.append(f"vacuous: {whose} {many_} no more than smoothness alone of the first model ({found.trivial:.3g})")
    if found.local:
        said.append(f"{', '.join(found.local)}: local estimates along one short run; the theorems ask for all x")
    reasons = dict.fromkeys(reason for result in found.found.values() for reason in result.reasons)
    return said + [
        f"a condition of the theorem fails, so that these numbers bound nothing: {reason}" for reason in reasons
    ]


def _steps(count: float) -> str:
    """Return a threshold of K as people read it."""
    return f"{count:,.3g}" if math.isfinite(count) else "any number"


def row(hit: Hit, by: Measure) -> list[str]:
    """A setting's line in the table of hits: the probe, the full run, how far apart, hit or miss, what it costs."""
    ends, verdict = hit.full.winner or "neither", "hit" if hit.hit else "miss"
    return [
        f"{hit.probe.winner or 'neither'} ({hit.probe.sure})",
        ends if hit.decided else f"undecided ({ends})",
        spread(hit.full.difference, by) if math.isfinite(hit.full.difference) else "diverged",
        verdict if hit.decided else f"({verdict})",
        "diverges" if hit.lost is None else spread(hit.lost, by),
    ]


def probed(found: Hits) -> str:
    """`probe: 100 rounds, 1 seed`; without the numbers where settings differ in them."""
    lengths = {(hit.rounds, hit.seeds) for hit in found.rows}
    if len(lengths) != 1:
        return "probe"
    ((rounds, seeds),) = lengths
    return f"probe: {rounds} rounds, {many(seeds, 'seed')}"


def counted(found: Hits) -> list[str]:
    """What the table comes to."""
    n = counts(found)
    said = [
        f"winner named in {n['hits']} of {n['settings']} settings, in {n['decided_hits']} of {n['decided']} decided "
        f"ones; 'always sequential' would be right in {n['sequential']} of these",
        f"where the probe did not say too close to call: {n['spoken_hits']} of {n['spoken']} decided ones",
        f"best rate and clip of both algorithms: {n['same']} of {n['rates']} are the full run's; the probe's rate is "
        f"larger in {n['larger']}, smaller in {n['smaller']}",
    ]
    left = f"{n['left_out']} settings are left out: their grids are not whole in the store"
    return said + [left] * (n["left_out"] > 0)


def following(found: Verdict, given: Mapping[str, Any]) -> str:
    """What to type next: the advised run with every digit of its rate; more of both where it is too close."""
    best = found.best
    if best is None:
        return ""
    flags = {name: x for name, x in given.items() if name not in ("lr", "clip", "algorithm")}
    if found.sure == CLOSE:
        rates = {side.best.lr: None for side in found.sides.values() if side.best}
        line = ["baton compare", *(f"-a {side}" for side in found.sides), f"--lrs {','.join(map(repr, sorted(rates)))}"]
    else:
        line = [
            "baton run",
            f"-a {best.algorithm}",
            f"--lr {best.lr!r}",
            *([f"--clip {best.clip:g}"] * (best.clip > 0)),
        ]
    return " ".join([*line, *(f"--{name.replace('_', '-')} {quote(str(x))}" for name, x in flags.items())])


def value(x: float, by: Measure) -> str:
    """A value of the metric."""
    return f"{x:.1e}" if by.log else f"{x:.2f}"


def spread(x: float, by: Measure) -> str:
    """A difference on the scale of the comparison."""
    return "?" if math.isinf(x) else f"{x:.2f} decades" if by.log else f"{x:.2f}"


def many(n: int, what: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n} {what}{'s' * (n != 1)}"
