"""Theorem 1 (sequential) and Theorem 2 (parallel), term by term, S of M."""

from typing import NamedTuple

import numpy as np

from baton.theory.lemmas import participation
from baton.theory.symbols import TERMS, Floats, Problem


class Factors(NamedTuple):
    """The numerical constants of one theorem in one case."""

    optimisation: float
    noise: float  # of participation too
    drift_noise: float
    drift_heterogeneity: float


FACTORS = {
    ("sequential", "strongly_convex"): Factors(9 / 2, 12, 18, 18),
    ("sequential", "convex"): Factors(3, 12, 18, 18),
    ("sequential", "nonconvex"): Factors(10, 20, 75 / 4, 75 / 4),
    ("parallel", "strongly_convex"): Factors(9 / 2, 12, 18, 12),
    ("parallel", "convex"): Factors(3, 12, 18, 12),
    ("parallel", "nonconvex"): Factors(8, 16, 15, 10),
}


def terms(algorithm: str, case: str, p: Problem, eta_tilde: Floats) -> dict[str, Floats]:
    """Theorems 1 and 2, S of M; h = eta_tilde, Q = (M - S)/(S (M - 1)), P = S (sequential) or 1 (parallel).

    Strongly convex, the factors f from FACTORS: f mu D^2 exp(-mu h R/2) + f h sigma^2/(S K) + f h Q zeta^2
    + f L h^2 sigma^2/(P K) + f L h^2 zeta^2/P. Convex: f D^2/(h R) + the same. Nonconvex: f A/(h R) + the same times L.
    The theorems are S = M; the term with Q, from drawing S of M, is in their proofs.
    """
    f = FACTORS[algorithm, case]
    share = p.S if algorithm == "sequential" else 1.0
    unit = p.L if case == "nonconvex" else 1.0
    with np.errstate(all="ignore"):
        if case == "strongly_convex":
            optimisation = f.optimisation * p.mu * p.D**2 * np.exp(-p.mu * eta_tilde * p.R / 2)
        else:
            start = p.A if case == "nonconvex" else p.D**2
            optimisation = f.optimisation * start / (eta_tilde * p.R)
        noise = f.noise * unit * eta_tilde * p.sigma**2 / (p.S * p.K)
        drawn = f.noise * unit * eta_tilde * participation(p.M, p.S) * p.zeta**2
        drift = unit * p.L * eta_tilde**2 / share
        drifts = f.drift_noise * drift * p.sigma**2 / p.K, f.drift_heterogeneity * drift * p.zeta**2
    return dict(zip(TERMS, (optimisation, noise, drawn, *drifts), strict=True))


def learning_rate(algorithm: str, p: Problem, eta_tilde: Floats) -> Floats:
    """eta = eta_tilde/(S K) sequential, eta_tilde/K parallel: a parallel round moves as far as one leg."""
    with np.errstate(all="ignore"):
        return np.asarray(eta_tilde / (p.S * p.K if algorithm == "sequential" else p.K))
