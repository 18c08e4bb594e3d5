"""The lemmas behind the theorems: exact identities of sampling, and the bounds on client drift."""

from typing import Any, NamedTuple

import numpy as np

from baton.theory import conditions
from baton.theory.symbols import ALGORITHMS, CASES, Floats, Number, array, check_name, plain, together


def participation(M: Number, S: Number) -> Floats:
    """(M - S)/(S (M - 1)): what drawing S of M without replacement leaves of the variance; 0 at S = M."""
    clients, drawn = np.asarray(M, dtype=np.float64), np.asarray(S, dtype=np.float64)
    with np.errstate(all="ignore"):
        return np.where(clients == drawn, 0.0, (clients - drawn) / (drawn * (clients - 1)))


def mean_variance(zeta: Number, M: Number, S: Number, replacement: bool = False) -> Any:
    """E|mean of S drawn of M - mean of all|^2 = zeta^2/S with replacement, zeta^2 (M - S)/(S (M - 1)) without.

    zeta^2 is the mean squared distance of the M vectors from their mean. With replacement S may exceed M.
    """
    z, m, s, shape = _counts(zeta=zeta, M=M, S=S, free=replacement)
    return plain(z**2 / s if replacement else z**2 * participation(m, s), shape)


def covariance(zeta: Number, M: Number) -> Any:
    """E<x_i - mean, x_j - mean> = -zeta^2/(M - 1) for two different draws without replacement."""
    z, m, _, shape = _counts(zeta=zeta, M=M, S=1)
    return plain(-(z**2) / (m - 1), shape)


def partial_sum(m: int, k: int, zeta: Number, M: Number, K: Number) -> Any:
    """E|K (sum of the first m - 1 deviations) + k (the m-th)|^2, a round's path after k steps at the m-th client.

    = zeta^2 (K^2 (m - 1)(M - (m - 1))/(M - 1) + k^2 - 2 K k (m - 1)/(M - 1)).
    """
    z, clients, _, shape = _counts(zeta=zeta, M=M, S=1, K=K)
    steps, before = array("K", K), m - 1
    for symbol, value, least, most in (("m", m, 1, clients), ("k", k, 0, steps - 1)):
        within = conditions.Condition(
            symbol, np.asarray(value), value <= most, f"at most {'M' if symbol == 'm' else 'K - 1'}", most
        )
        conditions.check([conditions.whole(symbol, np.asarray(float(value)), least), within], shape, strict=True)
    value = steps**2 * before * (clients - before) + k**2 * (clients - 1) - 2 * steps * k * before
    return plain(z**2 * value / (clients - 1), shape)


def path_variance(zeta: Number, M: Number, S: Number, K: Number) -> Any:
    """The sequential lemma's sum of partial_sum over m = 1..S and k = 0..K-1, exactly (its last equality).

    = zeta^2 (S K^2 (S K - 1)/2 - S K (K^2 - 1)/6 - (S - 1) S K^2 ((2 S - 1) K/6 - 1/2)/(M - 1)).
    """
    z, m, s, shape = _counts(zeta=zeta, M=M, S=S, K=K)
    k = array("K", K)
    drawn = (s - 1) * s * k**2 * ((2 * s - 1) * k / 6 - 1 / 2) / (m - 1)
    return plain(z**2 * (s * k**2 * (s * k - 1) / 2 - s * k * (k**2 - 1) / 6 - drawn), shape)


def path_variance_bound(zeta: Number, S: Number, K: Number) -> Any:
    """The same lemma's bound: S^2 K^3 zeta^2/2, whatever M."""
    z, s, k = array("zeta", zeta), array("S", S), array("K", K)
    shape = together({"zeta": z, "S": s, "K": k})
    held = [conditions.at_least_zero("zeta", z), conditions.whole("S", s, 1), conditions.whole("K", k, 1)]
    conditions.check(held, shape, strict=True)
    return plain(z**2 * s**2 * k**3 / 2, shape)


class Drift(NamedTuple):
    """A bound on client drift and its parts: noise, heterogeneity, optimality (how far the round starts from good)."""

    total: Any
    terms: dict[str, Any]
    valid: Any
    reasons: tuple[str, ...]


def drift_bound(
    algorithm: str,
    case: str,
    *,
    L: Number,
    sigma: Number,
    zeta: Number,
    K: Number,
    eta: Number,
    S: Number = 1,
    gap: Number = 0.0,
    gradient: Number = 0.0,
    beta: Number = 0.0,
    strict: bool = True,
) -> Drift:
    """The drift lemmas: how far a round's steps are from where it began, squared and added up.

    Sequential, E_r = sum over S legs and K steps of E|x_mk - x|^2, if eta <= 1/(6 L S K):
      9/4 S^2 K^2 eta^2 sigma^2 + 9/4 S^2 K^3 eta^2 zeta^2 + 3 L S^3 K^3 eta^2 gap, gap = F(x) - F*; nonconvex, if
      eta <= 1/(6 L S K (1 + beta^2/S)), with 9/4 (1 + beta^2/S) S^3 K^3 eta^2 gradient^2, gradient = |grad F(x)|, last.
    Parallel, E_r = mean over M clients of the sum over K steps, if eta <= 1/(6 L K):
      9/4 K^2 eta^2 sigma^2 + 3/2 K^3 eta^2 zeta^2 + 3 L K^3 eta^2 gap; nonconvex 3/2 (1 + beta^2) K^3 eta^2 gradient^2.
    The general convex case is the strongly convex one's lemma. S does not matter to the parallel one.
    """
    check_name("algorithm", algorithm, ALGORITHMS)
    check_name("case", case, CASES)
    given = {"L": L, "sigma": sigma, "zeta": zeta, "K": K, "eta": eta, "S": S}
    given |= {"gradient": gradient, "beta": beta} if case == "nonconvex" else {"gap": gap}
    v = {symbol: array(symbol, value) for symbol, value in given.items()}
    sequential, shape = algorithm == "sequential", together(v)
    s = v["S"] if sequential else np.ones(())
    with np.errstate(all="ignore"):
        path, steep = (s * v["K"] * v["eta"]) ** 2, np.ones(())  # path: eta_tilde^2
        if case == "nonconvex":
            steep = 1 + v["beta"] ** 2 / s
            last = (9 / 4 if sequential else 3 / 2) * steep * v["gradient"] ** 2
        else:
            last = 3 * v["L"] * v["gap"]
        parts = {
            "noise": 9 / 4 * path * v["sigma"] ** 2,
            "heterogeneity": (9 / 4 if sequential else 3 / 2) * path * v["K"] * v["zeta"] ** 2,
            "optimality": path * s * v["K"] * last,
        }
        most = 1 / (6 * v["L"] * s * v["K"] * (steep if sequential else 1.0))
    held = [conditions.whole(symbol, v[symbol], 1) for symbol in ("S", "K")]
    held += [conditions.at_least_zero(symbol, v[symbol]) for symbol in v if symbol not in ("S", "K", "L")]
    text = "at most 1/(6 L S K)" if sequential else "at most 1/(6 L K)"
    text = text.replace("K)", "K (1 + beta^2/S))") if sequential and case == "nonconvex" else text
    within = v["eta"] <= most * (1 + conditions.SLACK)
    held += [conditions.above_zero("L", v["L"]), conditions.Condition("eta", v["eta"], within, text, most)]
    valid, reasons = conditions.check(held, shape, strict)
    named = {name: plain(part, shape) for name, part in parts.items()}
    with np.errstate(all="ignore"):
        return Drift(sum(named.values()), named, plain(valid, shape), tuple(reasons))


def _counts(zeta: Number, M: Number, S: Number, K: Number = 1, free: bool = False) -> tuple[Any, Any, Any, Any]:
    """Checked: zeta >= 0, M >= 2, 1 <= S <= M, K >= 1."""
    z, m, s, k = array("zeta", zeta), array("M", M), array("S", S), array("K", K)
    shape = together({"zeta": z, "M": m, "S": s, "K": k})
    held = [conditions.at_least_zero("zeta", z), conditions.whole("M", m, 2), conditions.whole("S", s, 1)]
    held += [] if free else [conditions.Condition("S", s, s <= m, "at most M", m)]
    conditions.check([*held, conditions.whole("K", k, 1)], shape, strict=True)
    return z, m, s, shape
