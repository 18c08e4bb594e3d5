"""The conditions under which Theorems 1 and 2 hold, and the lines that say which one is broken."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput
from baton.theory.symbols import Floats, Problem

SLACK = 1e-12  # relative: 1/6/L and 1/(6 L) may differ in the last place


class Condition(NamedTuple):
    """One inequality, wherever the arrays have a place."""

    symbol: str
    value: Floats
    holds: NDArray[np.bool_]
    right: str  # what would be right
    edge: Any = None  # the number that `right` ends in
    stated: bool = True  # by the theorem; else only by its proof


def limit(algorithm: str, case: str, p: Problem) -> Floats:
    """The largest effective rate: 1/(6 L); nonconvex 1/(6 L (1 + beta^2/S)), parallel 1/(6 L (1 + beta^2))."""
    share = p.S if algorithm == "sequential" else 1.0
    with np.errstate(all="ignore"):
        return np.asarray(1 / (6 * p.L * (1 + p.beta**2 / share if case == "nonconvex" else 1.0)))


def floor(case: str, p: Problem) -> Floats:
    """Strongly convex: mu eta_tilde (R + 1) >= 1. Else 0.

    The theorem says "there exists eta_tilde <= 1/(6 L)"; the proof (the tuning lemma's W_T >= w_T/(3 a gamma)) takes
    this for granted too, and below it the formula is not a bound: it tends to 9/2 mu D^2, less than F(x0) - F* may be.
    R >= 6 kappa is just what makes room between the two.
    """
    with np.errstate(all="ignore"):
        return np.asarray(1 / (p.mu * (p.R + 1))) if case == "strongly_convex" else np.zeros(())


def of_problem(case: str, p: Problem) -> list[Condition]:
    """Everything but the rate."""
    found = [
        at_least_zero("sigma", p.sigma),
        at_least_zero("zeta", p.zeta),
        above_zero("L", p.L),
        whole("M", p.M, 2),
        whole("S", p.S, 1),
        Condition("S", p.S, p.S <= p.M, "at most M", p.M),
        whole("K", p.K, 1),
        whole("R", p.R, 1),
        at_least_zero("A", p.A) if case == "nonconvex" else at_least_zero("D", p.D),
    ]
    if case == "nonconvex":
        found.append(at_least_zero("beta", p.beta))
    if case == "strongly_convex":
        with np.errstate(all="ignore"):
            least = 6 * p.L / p.mu
        found.append(above_zero("mu", p.mu))
        found.append(Condition("mu", p.mu, p.mu <= p.L * (1 + SLACK), "at most L", p.L))
        found.append(Condition("R", p.R, least * (1 - SLACK) <= p.R, "at least 6 L/mu", least))
    return found


def of_rate(algorithm: str, case: str, p: Problem, eta_tilde: Floats) -> list[Condition]:
    """The effective rate's."""
    most, least = limit(algorithm, case, p), floor(case, p)
    share = "beta^2/S" if algorithm == "sequential" else "beta^2"
    text = f"at most 1/(6 L (1 + {share}))" if case == "nonconvex" else "at most 1/(6 L)"
    found = [
        above_zero("eta_tilde", eta_tilde),
        Condition("eta_tilde", eta_tilde, eta_tilde <= most * (1 + SLACK), text, most),
    ]
    if case == "strongly_convex":
        holds = eta_tilde >= least * (1 - SLACK)
        found.append(Condition("eta_tilde", eta_tilde, holds, "for the proof at least 1/(mu (R + 1))", least, False))
    return found


def above_zero(symbol: str, value: Floats) -> Condition:
    """And finite."""
    return Condition(symbol, value, np.isfinite(value) & (value > 0), "a number above 0")


def at_least_zero(symbol: str, value: Floats) -> Condition:
    """And finite."""
    return Condition(symbol, value, np.isfinite(value) & (value >= 0), "a number of 0 or more")


def whole(symbol: str, value: Floats, least: int) -> Condition:
    """A count."""
    with np.errstate(invalid="ignore"):
        holds = np.isfinite(value) & (value == np.floor(value)) & (value >= least)
    return Condition(symbol, value, holds, f"a whole number of {least} or more")


def check(conditions: Iterable[Condition], shape: tuple[int, ...], strict: bool) -> tuple[NDArray[np.bool_], list[str]]:
    """Where all hold, and a line for each that does not; strict: the first such line is BadInput, if it is stated."""
    valid, reasons = np.ones(shape, dtype=bool), []
    for condition in conditions:
        broken = ~np.broadcast_to(condition.holds, shape)
        if broken.any():
            reasons.append(_line(condition, broken))
            if strict and condition.stated:
                raise BadInput(reasons[-1])
            valid &= ~broken
    return valid, list(dict.fromkeys(reasons))


def _line(condition: Condition, broken: NDArray[np.bool_]) -> str:
    at = np.unravel_index(int(broken.argmax()), broken.shape)
    value = np.broadcast_to(condition.value, broken.shape)[at]
    edge = "" if condition.edge is None else f" = {np.broadcast_to(condition.edge, broken.shape)[at]:.6g}"
    more = f" (and at {broken.sum() - 1} more places)" if broken.sum() > 1 else ""
    return f"{condition.symbol}: {value:.6g}; {condition.right}{edge} is right{more}"
