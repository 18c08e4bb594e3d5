"""What groups of clients cost that take turns (cyclic participation, Cho et al., 2023): a bound, and an exact error.

M clients in G groups of N = M/G; in a round S clients are drawn without replacement from the group whose turn it is,
and train one after another (sequential) or side by side (parallel). A cycle is G rounds. zeta has two parts: between
groups, the root mean square of their mean gradients at x*; within, that of what sets clients apart from their group.
Their squares sum to zeta^2. One group is S of M drawn anew each round.

The bound: the way of ordering.py, with a path of two parts. Its middle takes the mean gradients of the groups at x*: a
cycle leads from x* back to x*. The draw of a round is beside it: it begins where the drawn clients' gradients at x*
lead to the middle again. That start is right in the mean, and does not depend on what came before; so beginning there
costs its variance eta^2 Y and no more. Beside x_i, after a round's n steps,

    E|x - middle|^2 <= (1 - eta mu)^n (E|x_0 - middle_0|^2 + eta^2 Y) + sum_i (1 - eta mu)^(n-1-i) (eta^3 L V_i + noise)

n = S K in a chain, and K side by side: there each leg has a path of its own, and the mean is no further from the paths'
mean than the legs are on the mean. V_i is the path's mean square distance from x*, over eta^2. Y and what the draw adds
to V_i are variances of draws without replacement; the middle's own part of V_i is at most its Cauchy-Schwarz.
"""

from typing import NamedTuple

import numpy as np

from baton.errors import BadInput
from baton.theory.ordering import Cost, least
from baton.theory.powers import log_left, terms, times
from baton.theory.symbols import ALGORITHMS, Floats, check_name


class Groups(NamedTuple):
    """A problem, and how long it is trained; between and within are the two parts of zeta."""

    L: float
    mu: float
    sigma: float
    between: float
    within: float
    D: float
    M: int
    G: int
    S: int
    K: int
    cycles: int


def groups(
    *,
    mu: float,
    zeta: float,
    D: float,
    M: int,
    G: int,
    K: int,
    R: int,
    L: float | None = None,
    sigma: float = 0.0,
    S: int = 0,
    within: float | None = None,
) -> Groups:
    """A problem by the paper's letters; L is mu, S the whole group, and within that of random groups unless given."""
    L = mu if L is None else L
    _check(
        ("mu", mu, mu > 0, "above 0"),
        ("L", L, mu <= L < np.inf, "finite and at least mu"),
        ("sigma", sigma, 0 <= sigma < np.inf, "finite and not below 0"),
        ("zeta", zeta, 0 <= zeta < np.inf, "finite and not below 0"),
        ("D", D, 0 <= D < np.inf, "finite and not below 0"),
        ("M", M, M >= 2, "2 or more"),
        ("groups", G, 1 <= G <= M and M % G == 0, f"a divisor of M = {M}: groups of equal size"),
        ("K", K, K >= 1, "1 or more"),
    )
    N, S = M // G, S or M // G
    _check(
        ("S", S, 1 <= S <= N, f"1 to M/G = {N}, the clients of a group,"),
        ("R", R, R >= 1 and R % G == 0, f"a multiple of G = {G}: whole cycles"),
    )
    if within is None:
        inside, between = zeta * ((M - G) / (M - 1)) ** 0.5, zeta * ((G - 1) / (M - 1)) ** 0.5
    else:
        _check(
            ("within", within, 0 <= within <= zeta, f"0 to zeta = {zeta:g}"),
            ("within", within, N > 1 or within == 0, "0, where a group is one client,"),
            ("within", within, G > 1 or within == zeta, f"zeta = {zeta:g}, where all are one group,"),
        )
        inside, between = within, (zeta**2 - within**2) ** 0.5
    return Groups(float(L), float(mu), float(sigma), float(between), float(inside), float(D), M, G, S, K, R // G)


def parted(gradients: Floats, G: int) -> tuple[float, float]:
    """zeta between groups and within them, of clients' gradients at the optimum [M, d]; a group is neighbours."""
    each = np.asarray(gradients, dtype=np.float64).reshape(G, len(gradients) // G, -1)
    means = each.mean(1)
    apart = (each - means[:, None]) ** 2
    return float((means**2).sum(-1).mean() ** 0.5), float(apart.sum(-1).mean() ** 0.5)


def groups_bound(algorithm: str, p: Groups, eta: Floats) -> Floats:
    """E[F(x) - F*] <= this after the last cycle, for every problem of these constants; inf where eta is above 1/L."""
    check_name("algorithm", algorithm, ALGORITHMS)
    eta = np.asarray(eta, dtype=np.float64)
    chain, N = algorithm == "sequential", p.M // p.G
    n = p.S * p.K if chain else p.K  # steps of a round, one after another
    g, i = np.divmod(np.arange(float(p.G * n)), n)  # whole rounds before a step of a cycle, and steps of its own round
    middle = p.between**2 * (p.G * (g * n**2 + i**2) - (g * n + i) ** 2)  # |middle - x*|^2 / eta^2, at most
    i = np.arange(float(n))
    if chain:
        j, k = np.divmod(i, p.K)  # the draw's part of the way to the middle: weights of the S legs that are left
        left, squares = n - i, (p.K - k) ** 2 + p.K**2 * (p.S - 1 - j)
        noise = np.ones(n)
    else:
        left, squares = p.K - i, (p.K / p.S - i) ** 2 + (p.S - 1) * (p.K / p.S) ** 2
        noise = np.where(i == n - 1, 1 / p.S, 1.0)  # of the mean: that of the last step is known to average out
    # The variance of one group's draw, were all the spread in the group that comes last: more than any other way.
    beside = p.within**2 * p.G * (N * squares - left**2) / max(N - 1, 1)
    fall = log_left(eta * p.mu)[..., None]
    with np.errstate(all="ignore"):
        later = np.exp(times(n - 1 - i, fall))  # what is left of a step's addition when its round ends
        grown = (np.exp(times(p.G * n - 1 - np.arange(float(p.G * n)), fall)) * middle).sum(-1)
        grown = eta**3 * p.L * (grown + (later * beside).sum(-1)) + eta**2 * np.exp(n * fall[..., 0]) * beside[0]
        heard = eta**2 * p.sigma**2 * (later * noise).sum(-1) * terms(n, p.G * p.cycles, fall[..., 0])
        steps = p.G * n * p.cycles
        found = np.exp(2 * np.log(p.D) + times(steps, fall[..., 0])) if p.D else np.zeros(eta.shape)
        found = p.L / 2 * (found + grown * terms(p.G * n, p.cycles, fall[..., 0]) + heard)
    return np.where(eta * p.L <= 1 + 1e-12, found, np.inf)


def groups_error(algorithm: str, p: Groups, eta: Floats, pulls: Floats | None = None) -> Floats:
    """E[F(x) - F*] after the last cycle on mu/2 x^2 + c_m x, exactly (rounding aside); without gradient noise.

    x is at first x* + D. pulls: the c_m, where they are not those of the two zetas, one half of the groups (and of each
    group's clients) to either side.
    """
    check_name("algorithm", algorithm, ALGORITHMS)
    eta, N = np.asarray(eta, dtype=np.float64), p.M // p.G
    if pulls is None:
        means, spreads = p.between * _sides(p.G), np.full(p.G, p.within**2)
    else:
        each = np.asarray(pulls, dtype=np.float64).reshape(p.G, N)
        means, spreads = each.mean(1) - each.mean(), each.var(1)
    with np.errstate(all="ignore"):
        leg = p.K * log_left(eta * p.mu)  # a leg is x -> a x - (1 - a) c / mu, a = exp(leg)
        if algorithm == "sequential":
            weights = -np.expm1(leg)[..., None] * np.exp(times(p.S - 1 - np.arange(float(p.S)), leg[..., None]))
            round_ = p.S * leg
        else:
            weights = -np.expm1(leg)[..., None] * np.full(p.S, 1 / p.S)
            round_ = leg
        after = times(p.G - 1 - np.arange(float(p.G)), round_[..., None])  # rounds of a cycle behind each group's
        turn = p.G * round_
        bias = -np.expm1(round_) * (np.expm1(after) * means).sum(-1)  # the means sum to zero
        spread = _drawn(weights, N) * (np.exp(2 * after) * spreads).sum(-1)
        start = np.exp(times(p.cycles, turn)) * p.D
        off = start - bias * terms(1, p.cycles, turn) / p.mu
        return np.asarray(p.mu / 2 * (off**2 + spread * terms(2, p.cycles, turn) / p.mu**2))


def groups_costs(p: Groups) -> list[Cost]:
    """Of chains, and of legs side by side."""
    return [_cost(algorithm, p) for algorithm in ALGORITHMS]


def _cost(algorithm: str, p: Groups) -> Cost:
    steps = p.G * p.K * (p.S if algorithm == "sequential" else 1)
    bound = least(lambda eta: groups_bound(algorithm, p, eta), 1 / p.L, steps, p.cycles)
    error = least(lambda eta: groups_error(algorithm, p, eta), 1 / p.L, steps, p.cycles)
    return Cost("cyclic", _falls_as(algorithm, p), bound, error, algorithm)


def _falls_as(algorithm: str, p: Groups) -> str:
    """The least error on the quadratics, R in epochs (all clients once), without constants and logarithms."""
    if p.within and p.M > p.G * p.S:
        return "1/(M R)"
    if p.between:
        return "1/R^2"
    return f"1/(M {'G^2 ' if p.G > 1 else ''}R^3)" if algorithm == "sequential" and p.within else "exp(-R)"


def _sides(count: int) -> Floats:
    """One half +, the other -, one in the middle 0; of mean square 1 (a single one: 0)."""
    side = np.sign((count - 1) / 2 - np.arange(float(count)))
    return np.asarray(side * (count / max(count - count % 2, 1)) ** 0.5)


def _drawn(weights: Floats, N: int) -> Floats:
    """The variance of sum w_j c_j, c drawn without replacement from N numbers of variance 1."""
    S, mean = weights.shape[-1], weights.mean(-1, keepdims=True)
    square = N * ((weights - mean) ** 2).sum(-1) + S * (N - S) * mean[..., 0] ** 2
    return np.asarray(square / max(N - 1, 1))


def _check(*rules: tuple[str, float, bool, str]) -> None:
    for symbol, value, right, rule in rules:
        if not right:
            raise BadInput(f"{symbol}: {value:g}; {rule} is right where groups take turns")
