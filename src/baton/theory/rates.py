"""Effective learning rates: the corollaries' closed form, and the minimiser of the bound itself."""

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from baton.theory import conditions
from baton.theory.symbols import Floats, Problem, Symbols, check_name, plain, read, together
from baton.theory.theorems import terms

RULES = ("lemma", "with_drift")
GOLDEN = (5**0.5 - 1) / 2


def tuned_rate(
    algorithm: str, case: str, *, rule: str = "lemma", strict: bool = True, **symbols: Unpack[Symbols]
) -> Any:
    """Corollaries 1 and 2: min{1/(6 L), D/sqrt(c1 R), (D^2/(c2 R))^(1/3)}; nonconvex with A for D^2 and its own limit.

    Strongly convex: min{1/(6 L), ln(max{2, X})/(mu R/2)}. c1 and c2 are those of the proofs, constants included.

    Args:
        algorithm: "sequential" or "parallel".
        case: "strongly_convex", "convex" or "nonconvex".
        rule: "lemma", the paper's; or "with_drift", which in the strongly convex case looks at the drift (c2) too: it
            is never above the lemma's rate, and falls with R where c1 = 0.
        strict: whether a condition of the theorem that does not hold is an error.
        symbols: the theorems' symbols.

    """
    check_name("rule", rule, RULES)
    p, shape = _checked(algorithm, case, symbols, strict)
    return plain(tuned(algorithm, case, p, rule), shape)


def best_rate(algorithm: str, case: str, *, strict: bool = True, **symbols: Unpack[Symbols]) -> Any:
    """The effective rate at which the explicit bound is least, among those for which it is a bound."""
    p, shape = _checked(algorithm, case, symbols, strict)
    return plain(best(algorithm, case, p), shape)


def largest_rate(algorithm: str, case: str, *, strict: bool = True, **symbols: Unpack[Symbols]) -> Any:
    """The theorem's condition: eta_tilde <= this."""
    p, shape = _checked(algorithm, case, symbols, strict)
    return plain(conditions.limit(algorithm, case, p), shape)


def tuned(algorithm: str, case: str, p: Problem, rule: str = "lemma") -> Floats:
    """The tuning lemmas' gamma, r_{t+1} <= (1 - a gamma) r_t - b gamma s_t + c1 gamma^2 + c2 gamma^3.

    a = 0: min{sqrt(r_0/(c1 R)), (r_0/(c2 R))^(1/3), 1/d}, at most three times the bound's minimum.
    a = mu/2, b = 1/3: min{ln(max{2, X})/(a R), 1/d}, X = a^2 r_0 R/c1, the lemma's; by the rule "with_drift" X is at
    most a^3 r_0 R^2/c2. Without noise and with all clients (c1 = 0) the lemma leaves 1/d, and terms that do not fall.
    """
    t = terms(algorithm, case, p, np.ones(()))
    linear, square = t["noise"] + t["participation"], t["drift_noise"] + t["drift_heterogeneity"]
    with np.errstate(all="ignore"):
        if case == "strongly_convex":
            b, a, start = 1 / 3, p.mu / 2, p.D**2
            x = a**2 * start * p.R / (b * linear)
            if rule == "with_drift":
                x = np.fmin(x, a**3 * start * p.R**2 / (b * square))
            rate = np.log(np.fmax(2.0, x)) / (a * p.R)
        else:
            rate = np.fmin(np.sqrt(t["optimisation"] / linear), np.cbrt(t["optimisation"] / square))
        return np.fmin(rate, conditions.limit(algorithm, case, p))


def best(algorithm: str, case: str, p: Problem) -> Floats:
    """Golden section on log eta_tilde; the bound is convex in eta_tilde, so it falls and then rises.

    Between mu eta_tilde (R + 1) = 1 and the limit; without strong convexity between half the tuned rate and it, which
    hold the minimum. At D = 0 or A = 0 there is none, and the rate is the limit times 1e-15.
    """
    most = conditions.limit(algorithm, case, p)
    if case == "strongly_convex":
        least = np.fmin(conditions.floor(case, p), most)
    else:
        rate, tiny = tuned(algorithm, case, p), 1e-15 * most
        least, most = np.fmax(rate / 2, tiny), np.fmax(rate, tiny)

    def total(rate: Floats) -> Floats:
        return np.asarray(sum(terms(algorithm, case, p, rate).values()))

    return minimiser(total, least, most)


def minimiser(f: Callable[[Floats], Floats], least: Floats, most: Floats, steps: int = 60) -> Floats:
    """Where a function that falls and then rises is least in [least, most], ends included; each place by itself."""
    with np.errstate(all="ignore"):
        low, high = np.log(least), np.log(most)
        for _ in range(steps):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            falls = f(np.exp(right)) < f(np.exp(left))
            low, high = np.where(falls, left, low), np.where(falls, high, right)
        found = np.exp((low + high) / 2)
        for end in (least, most):
            found = np.where(f(end) <= f(found), end, found)
    return found


def _checked(algorithm: str, case: str, symbols: Symbols, strict: bool) -> tuple[Problem, tuple[int, ...]]:
    p = read(algorithm, case, symbols)
    shape = together(p._asdict())
    conditions.check(conditions.of_problem(case, p), shape, strict)
    return p, shape
