"""Corollaries 1 and 2: the orders of the tuned bounds, constants and logarithms left out, S of M."""

from typing import Any, Unpack

import numpy as np

from baton.theory import conditions
from baton.theory.lemmas import participation
from baton.theory.symbols import TERMS, Floats, Problem, Symbols, plain, read, together


def orders(algorithm: str, case: str, *, strict: bool = True, **symbols: Unpack[Symbols]) -> dict[str, Any]:
    """Corollaries 1 and 2, S of M, by term; P = S (sequential) or 1 (parallel), Q = (M - S)/(S (M - 1)).

    Strongly convex: mu D^2 exp(-mu R/L), sigma^2/(mu S K R), Q zeta^2/(mu R), L sigma^2/(mu^2 P K R^2),
    L zeta^2/(mu^2 P R^2);
    convex: L D^2/R, sigma D/sqrt(S K R), sqrt(1 - S/M) zeta D/sqrt(S R), (L sigma^2 D^4/(P K))^(1/3)/R^(2/3),
    (L zeta^2 D^4/P)^(1/3)/R^(2/3);
    nonconvex: L A (1 + beta^2/P)/R, then the same with sqrt(L A) for D and (L A)^2 for L D^4.

    The proof of the strongly convex case has exp(-mu R/(12 L)). Under a root the paper writes (1 - S/M)/S for Q, from
    which it differs by the factor 1 - 1/M.
    """
    p = read(algorithm, case, symbols)
    shape = together(p._asdict())
    conditions.check(conditions.of_problem(case, p), shape, strict)
    share = p.S if algorithm == "sequential" else np.ones(())
    with np.errstate(all="ignore"):
        found = _strongly_convex(p, share) if case == "strongly_convex" else _roots(case, p, share)
    return {name: plain(value, shape) for name, value in zip(TERMS, found, strict=True)}


def _strongly_convex(p: Problem, share: Floats) -> tuple[Floats, ...]:
    drift = p.L / (p.mu**2 * share * p.R**2)
    return (
        p.mu * p.D**2 * np.exp(-p.mu * p.R / p.L),
        p.sigma**2 / (p.mu * p.S * p.K * p.R),
        participation(p.M, p.S) * p.zeta**2 / (p.mu * p.R),
        drift * p.sigma**2 / p.K,
        drift * p.zeta**2,
    )


def _roots(case: str, p: Problem, share: Floats) -> tuple[Floats, ...]:
    nonconvex = case == "nonconvex"
    root = np.sqrt(p.L * p.A) if nonconvex else p.D
    cube = (p.L * p.A) ** 2 if nonconvex else p.L * p.D**4
    first = p.L * p.A * (1 + p.beta**2 / share) if nonconvex else p.L * p.D**2
    return (
        first / p.R,
        p.sigma * root / np.sqrt(p.S * p.K * p.R),
        np.sqrt(1 - p.S / p.M) * p.zeta * root / np.sqrt(p.S * p.R),
        np.cbrt(cube * p.sigma**2 / (share * p.K)) / p.R ** (2 / 3),
        np.cbrt(cube * p.zeta**2 / share) / p.R ** (2 / 3),
    )
