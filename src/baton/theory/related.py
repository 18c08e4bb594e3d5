"""Bounds of related work that appendix B sets beside Theorem 1: Cho et al. (2023) and Malinovsky et al. (2023)."""

from typing import Any

import numpy as np

from baton.theory.rates import minimiser
from baton.theory.symbols import Floats, array, plain, together
from baton.theory.table import Row

CHO, MALINOVSKY = "cho2023convergence", "malinovsky2023federated"
_CYCLIC = {
    "parallel": r"\frac{L\sigma^2}{\mu^2MKR} + \frac{L^2\zeta^2}{\mu^3 M^2R^2}",
    "sequential": r"\frac{L\sigma^2}{\mu^2KR} + \frac{L^2\zeta^2}{\mu^3 R^2} + \frac{L^2\zeta^2}{\mu^3 M^2R^2}",
}
_SHUFFLED = r"LMK^2\eta^2\zeta_\ast^2+ \mu D^2 \exp\left(-\mu MKR\eta \right)"
_NOTES = {
    CHO: "appendix B: their Theorem 2; the optimisation term is left out",
    MALINOVSKY: "appendix B: their Theorem 6.1 without noise, at the best eta <= 1/L",
    "Theorem 1": "appendix B: Theorem 1 beside it, without noise, at the best eta <= 1/(L M K)",
}


def cyclic(algorithm: str, **symbols: Any) -> Row:
    """Return Cho et al.'s bound for one group of all clients (parallel) or M groups of one (sequential)."""
    L, mu, sigma, zeta, M, K, R = _read(symbols, "L", "mu", "sigma", "zeta", "M", "K", "R")
    with np.errstate(all="ignore"):
        groups = 1.0 if algorithm == "sequential" else M
        noise = L * sigma**2 / (mu**2 * groups * K * R)
        heterogeneity = L**2 * zeta**2 / (mu**3 * M**2 * R**2)
        if algorithm == "sequential":
            heterogeneity = heterogeneity + L**2 * zeta**2 / (mu**3 * R**2)
    return _row(algorithm, CHO, _CYCLIC[algorithm], noise=noise, heterogeneity=heterogeneity, optimisation=np.nan)


def shuffled(*, own: bool = False, eta: Any = None, **symbols: Any) -> Row:
    """Return Malinovsky et al.'s bound for sequential training without noise, or Theorem 1's in the same form.

    Args:
        own: Theorem 1's, which has no factor L/mu and eta <= 1/(L M K); theirs has eta <= 1/L.
        eta: the learning rate; left out, the one with the least bound.
        symbols: L, mu, zeta, D, M, K and R.

    """
    L, mu, zeta, D, M, K, R = _read(symbols, "L", "mu", "zeta", "D", "M", "K", "R")
    factor = np.ones(()) if own else L / mu
    most = 1 / (L * M * K) if own else 1 / L

    def terms(rate: Floats) -> tuple[Floats, Floats]:
        with np.errstate(all="ignore"):
            heterogeneity = factor * L * M * (K * rate * zeta) ** 2
            return heterogeneity, factor * mu * D**2 * np.exp(-mu * M * K * R * rate)

    def total(rate: Floats) -> Floats:
        return np.asarray(sum(terms(rate)))

    rate = minimiser(total, most * 1e-12, most) if eta is None else array("eta", eta)
    heterogeneity, optimisation = terms(rate)
    formula = _SHUFFLED if own else rf"\frac{{L}}{{\mu}}\left({_SHUFFLED}\right)"
    source = "Theorem 1" if own else MALINOVSKY
    return _row("sequential", source, formula, noise=0.0, heterogeneity=heterogeneity, optimisation=optimisation)


def related(algorithm: str | None = None, **symbols: Any) -> list[Row]:
    """Return appendix B's bounds at these constants, all strongly convex: both methods' rows, or one's."""
    rows = [cyclic("parallel", **symbols)] if algorithm in (None, "parallel") else []
    if algorithm in (None, "sequential"):
        rows += [cyclic("sequential", **symbols), shuffled(**symbols), shuffled(own=True, **symbols)]
    return rows


def _read(symbols: dict[str, Any], *names: str) -> tuple[Floats, ...]:
    found = {name: array(name, symbols[name]) for name in names}
    together(found)
    return tuple(found.values())


def _row(method: str, source: str, formula: str, *, noise: Any, heterogeneity: Any, optimisation: Any) -> Row:
    terms = {"noise": noise, "drift_noise": 0.0, "drift_heterogeneity": heterogeneity, "optimisation": optimisation}
    shape = np.broadcast_shapes(*(np.shape(value) for value in terms.values()))
    values = {name: plain(np.asarray(value, dtype=np.float64), shape) for name, value in terms.items()}
    total = plain(np.nansum([np.broadcast_to(value, shape) for value in values.values()], axis=0), shape)
    return Row("strongly_convex", method, source, formula, _NOTES[source], values, total, beside=True)
