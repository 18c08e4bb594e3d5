"""Advice and its hit rate as plain dicts, for JSON."""

import math
from collections.abc import Sequence
from typing import Any

from baton.advice import words
from baton.advice.bounds import Bounds
from baton.advice.hits import Hit, Hits, counts
from baton.advice.measure import Measure
from baton.advice.verdict import Candidate, Side, Verdict
from baton.setting import Setting


def advice(
    setting: Setting,
    probe: Sequence[Setting],
    last: int,
    by: Measure,
    found: Verdict,
    beside: Bounds | str | None,
    following: str = "",
) -> dict[str, Any]:
    """What is advised, how sure it is, the probe and the bounds."""
    seeds = list(dict.fromkeys(s.seed for s in probe))
    length = {"rounds": probe[0].rounds, "of": setting.rounds, "seeds": seeds, "runs": len(probe)}
    return {
        "setting": setting.model_dump(exclude={"algorithm", "lr", "clip", "seed"}),
        "advice": None if found.best is None else {"algorithm": found.winner, **_knobs(found.best)},
        "next": following,
        "sure": found.sure,
        "difference": _number(found.difference),
        "error": _number(found.error),
        "interval": [_number(x) for x in (found.apart.low, found.apart.high)] if found.apart else None,
        "test_rows": found.apart.rows.n if found.apart and found.apart.rows else None,
        "probe": {**length, "metric": by.metric, "log": by.log, "margin": by.margin, "last": last},
        "sides": {name: _side(own) for name, own in found.sides.items()},
        "bounds": _bounds(beside) if isinstance(beside, Bounds) else beside,
        "warnings": words.warnings(found, last, len(seeds)),
    }


def checked(found: Hits, labels: Sequence[str]) -> dict[str, Any]:
    """The hit rate and its rows; difference and lost are in decades where log."""
    rows = [{"setting": label, **_hit(hit)} for label, hit in zip(labels, found.rows, strict=True)]
    return {"metric": found.by.metric, "log": found.by.log, **counts(found), "rows": rows}


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "rounds": hit.rounds,
        "seeds": hit.seeds,
        "probe": hit.probe.winner,
        "sure": hit.probe.sure,
        "advice": None if hit.probe.best is None else _knobs(hit.probe.best),
        "full": hit.full.winner,
        "difference": _number(hit.full.difference),
        "decided": hit.decided,
        "hit": hit.hit,
        "lost": hit.lost,
    }


def _knobs(candidate: Candidate) -> dict[str, float]:
    return {"lr": candidate.lr, "clip": candidate.clip}


def _side(own: Side) -> dict[str, Any]:
    numbers = {name: _number(getattr(own, name)) for name in ("value", "spread", "error")}
    rest = {name: getattr(own, name) for name in ("candidates", "diverged", "edge")}
    return {"best": None if own.best is None else _knobs(own.best), **numbers, **rest}


def _bounds(found: Bounds) -> dict[str, Any]:
    about = {"case": found.case, "constants": found.letters, "local_estimates": found.local}
    each = {
        side: {
            "total": _number(result.total),
            "terms": {name: _number(term) for name, term in result.terms.items()},
            "mostly": result.dominant(),
            "eta": _number(result.eta),
            "valid": bool(result.valid),
            "reasons": list(result.reasons),
        }
        for side, result in found.found.items()
    }
    return {
        **about,
        "smaller": found.smaller,
        "factor": _number(found.factor),
        "apart": found.apart,
        "vacuous": found.vacuous,
        **each,
    }


def _number(x: float) -> float | None:
    """JSON has no nan and no infinity."""
    return float(x) if math.isfinite(x) else None
