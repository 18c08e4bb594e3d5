"""The one-round recursions that the theorems are sums of: what a round adds at most to the distance or the gap."""

from typing import Any, NamedTuple

import numpy as np

from baton.theory.conditions import limit
from baton.theory.corollaries import orders
from baton.theory.lemmas import participation
from baton.theory.symbols import Floats, Problem, Symbols, array, plain, read, together


class Recursion(NamedTuple):
    """E[r'] <= keep r - descent s + noise + participation + drift E_r, one round after r.

    Convex: r = |x - x*|^2 and s = F(x) - F*. Nonconvex: r = F(x) - F* and s = |grad F(x)|^2. E_r is the round's client
    drift, which `drift_bound` bounds.
    """

    keep: Any
    descent: Any
    noise: Any
    participation: Any
    drift: Any
    valid: Any  # whether eta is one that the lemma allows


class Summable(NamedTuple):
    """E[r'] <= (1 - a h) r - b h s + linear h^2 + square h^3, with the client drift bounded and h = eta_tilde."""

    a: Any
    b: Any
    linear: Any  # c1 of the proofs
    square: Any  # c2 of the proofs


_DESCENT = {"nonconvex": {"sequential": 1 / 10, "parallel": 1 / 8}}  # after the drift; 1/3 in the convex cases


def recursion(algorithm: str, case: str, *, eta: Any, **symbols: Any) -> Recursion:
    """Return one lemma's recursion, with the client drift as it is: Algorithm 1's or 2's, convex or nonconvex.

    Args:
        algorithm: "sequential" or "parallel".
        case: "strongly_convex", "convex" (mu = 0) or "nonconvex".
        eta: the learning rate of a local step.
        symbols: the theorems' symbols; R and D or A are not used and may be left out.

    """
    p = _read(algorithm, case, symbols)
    rate = array("eta", eta)
    shape = together(p._asdict() | {"eta": rate})
    sequential, nonconvex = algorithm == "sequential", case == "nonconvex"
    h = rate * p.K * (p.S if sequential else 1.0)  # eta_tilde
    with np.errstate(all="ignore"):
        unit, drift = _constants(case, p)
        keep = 1 - p.mu * h / 2 if case == "strongly_convex" else np.ones(())
        parts = (
            keep,
            (1 / 6 if nonconvex else 2 / 3) * h,
            unit * h**2 * p.sigma**2 / (p.S * p.K),
            unit * h**2 * participation(p.M, p.S) * p.zeta**2,
            drift * rate,
        )
        valid = h <= limit(algorithm, case, p) * (1 + 1e-12)
    return Recursion(*(plain(part, shape) for part in (*parts, valid)))


def summable(algorithm: str, case: str, **symbols: Any) -> Summable:
    """Return the recursion after the drift lemma is put in: the form that the tuning lemmas sum over R rounds."""
    p = _read(algorithm, case, symbols)
    shape = together(p._asdict())
    return Summable(*(plain(part, shape) for part in _coefficients(algorithm, case, p)))


def _read(algorithm: str, case: str, symbols: dict[str, Any]) -> Problem:
    given: Symbols = {"R": 1, "D": 1, "A": 1, **symbols}  # type: ignore[typeddict-item]
    return read(algorithm, case, given)


def _constants(case: str, p: Problem) -> tuple[Floats, Floats]:
    """Return what the recursion lemmas multiply variances and the client drift by."""
    if case == "nonconvex":
        return 2 * p.L, 5 / 6 * p.L**2
    return np.asarray(4.0), 8 / 3 * p.L


def _coefficients(algorithm: str, case: str, p: Problem) -> tuple[Floats, Floats, Floats, Floats]:
    """From the recursion lemma and the drift lemma; b is what is left of the descent at the largest rate."""
    sequential = algorithm == "sequential"
    b = _DESCENT.get(case, {}).get(algorithm, 1 / 3)
    share = p.S if sequential else np.ones(())
    with np.errstate(all="ignore"):
        unit, drift = _constants(case, p)
        heterogeneity = (9 / 4 if sequential else 3 / 2) * p.zeta**2
        linear = unit * (p.sigma**2 / (p.S * p.K) + participation(p.M, p.S) * p.zeta**2)
        square = drift * (9 / 4 * p.sigma**2 / p.K + heterogeneity) / share
        return p.mu / 2 if case == "strongly_convex" else np.zeros(()), np.asarray(b), linear, square


def useful_steps(algorithm: str, case: str, **symbols: Any) -> Any:
    """Return the K beyond which more local steps no longer lower the corollary's leading term.

    It is where the noise term, which falls with K, equals the heterogeneity term, which does not: strongly convex and
    sequential, (sigma^2/zeta^2) (mu/L) R. Infinite where zeta = 0.

    Args:
        algorithm: "sequential" or "parallel".
        case: "strongly_convex", "convex" or "nonconvex".
        symbols: the theorems' symbols; K is not used and may be left out.

    """
    given: Symbols = {**symbols, "K": 1}  # type: ignore[typeddict-item]
    terms = orders(algorithm, case, strict=False, **given)
    power = 1 if case == "strongly_convex" else 2  # the noise term is sigma^2/K there, sigma/sqrt(K) elsewhere
    with np.errstate(all="ignore"):
        steps = np.divide(terms["noise"], terms["drift_heterogeneity"]) ** power
    return plain(steps, np.shape(steps))
