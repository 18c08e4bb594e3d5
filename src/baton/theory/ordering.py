"""What the order of clients costs: a bound for each, and its exact error on the quadratics of the lower bounds.

A chain through all M clients, K steps each, is an epoch: E = R S / M of them in R rounds. Every F_m is mu-strongly
convex and L-smooth, gradient noise sigma, zeta that of the optimum; eta is the step's own learning rate, at most 1/L.

The bound: beside the chain x_i goes one that takes the same steps with the gradients of x*, from x* back to x* in each
epoch. |x_i - x*_i|^2 falls by 1 - eta mu a step, and grows by eta L |x*_i - x*|^2 (three-point identity, co-coercivity)
and eta^2 sigma^2. |x*_i - x*|^2 is that of a sum of gradients at x*: known exactly on the mean over shuffles, and in a
fixed order at most M - 1 times that. This is the way of Mishchenko, Khaled and Richtarik (2020), for legs.

The quadratics: F_m = mu/2 x^2 + zeta x for one half of the clients, mu/2 x^2 - zeta x for the other, x at first D. They
are those of the lower bounds of Safran and Shamir (2020), and their error is known exactly in every order.

Clients in groups that take turns: groups.py.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from baton.errors import BadInput
from baton.theory.powers import log_left, terms, times
from baton.theory.rates import minimiser
from baton.theory.symbols import Floats, check_name

ORDER_RATES = {  # schedule -> how its least error falls on the quadratics, without constants and logarithms
    "incremental": "1/R^2",
    "once": "1/(M R^2)",
    "reshuffled": "1/(M R^3)",
    "flipflop": "1/(M R^5)",
    "replacement": "1/(M R)",
}
ORDERS = tuple(ORDER_RATES)
FINE = 300  # rates that are tried between the least and the largest one, before the best is looked for between them
ROOM = 10_000_000  # numbers at once: a rate has one a step of an epoch


class Chain(NamedTuple):
    """A problem, and how long it is trained."""

    L: float
    mu: float
    sigma: float
    zeta: float
    D: float
    M: int
    K: int
    epochs: int


class Least(NamedTuple):
    """An error at its best rate."""

    error: float
    eta: float


class Cost(NamedTuple):
    """What an order costs, at its best rate: at most on all problems, and exactly on the quadratics."""

    order: str
    falls_as: str
    bound: Least  # nan where there is none
    quadratics: Least
    algorithm: str = "sequential"


def chain(
    *, mu: float, zeta: float, D: float, M: int, K: int, R: int, L: float | None = None, sigma: float = 0.0, S: int = 0
) -> Chain:
    """A problem by the paper's letters; L is mu and S is M unless given."""
    L, S = mu if L is None else L, S or M
    for symbol, value, right, rule in (
        ("mu", mu, mu > 0, "above 0"),
        ("L", L, mu <= L < np.inf, "finite and at least mu"),
        ("sigma", sigma, 0 <= sigma < np.inf, "finite and not below 0"),
        ("zeta", zeta, 0 <= zeta < np.inf, "finite and not below 0"),
        ("D", D, 0 <= D < np.inf, "finite and not below 0"),
        ("M", M, M >= 2 and M % 2 == 0, "even: one half of the clients pulls to each side"),
        ("K", K, K >= 1, "1 or more"),
        ("S", S, 1 <= S <= M and M % S == 0, f"a divisor of M = {M}: an epoch is M/S rounds"),
        ("R", R, R >= 1 and R * S % M == 0, f"a multiple of M/S = {M / S:g}: whole epochs"),
    ):
        if not right:
            raise BadInput(f"{symbol}: {value:g}; {rule} is right where orders are compared")
    return Chain(float(L), float(mu), float(sigma), float(zeta), float(D), int(M), int(K), R * S // M)


def order_bound(order: str, p: Chain, eta: Floats) -> Floats:
    """E[F(x) - F*] <= this after the last epoch, for every problem of these constants; inf where eta is above 1/L.

    Clients drawn with replacement have none here: nan.
    """
    check_name("order", order, ORDERS)
    eta = np.asarray(eta, dtype=np.float64)
    if order == "replacement":
        return np.full(eta.shape, np.nan)
    steps = p.M * p.K
    m, k = np.divmod(np.arange(float(steps)), p.K)  # whole legs before a step, and steps of its own leg
    far = p.zeta**2 * (p.M * (m * p.K**2 + k**2) - (m * p.K + k) ** 2) / (p.M - 1.0)  # |x*_i - x*|^2 / eta^2
    if order == "incremental":
        far = far * (p.M - 1)
    fall = log_left(eta * p.mu)[..., None]
    with np.errstate(all="ignore"):
        grown = (np.exp(times(steps - 1 - np.arange(float(steps)), fall)) * far).sum(-1) * eta**3 * p.L
        noise = eta**2 * p.sigma**2 * terms(1, steps * p.epochs, fall[..., 0])
        found = np.exp(2 * np.log(p.D) + times(steps * p.epochs, fall[..., 0])) if p.D else np.zeros(eta.shape)
        found = p.L / 2 * (found + grown * terms(steps, p.epochs, fall[..., 0]) + noise)
    return np.where(eta * p.L <= 1 + 1e-12, found, np.inf)


def order_error(order: str, p: Chain, eta: Floats) -> Floats:
    """E[F(x) - F*] after the last epoch on the quadratics, exactly (rounding aside); without gradient noise."""
    check_name("order", order, ORDERS)
    eta = np.asarray(eta, dtype=np.float64)
    with np.errstate(all="ignore"):
        leg = p.K * log_left(eta * p.mu)  # a leg is x -> a x - (1 - a) s zeta / mu, a = exp(leg)
        back = np.exp(times(p.M - 1 - np.arange(float(p.M)), leg[..., None]))
        pulls = -np.expm1(leg)[..., None] * back  # what is left at the end of an epoch of each leg's pull
        turn, E = p.M * leg, p.epochs  # an epoch is x -> exp(turn) x - zeta / mu * sum of pulls with their signs
        start = np.exp(times(E, turn)) * p.D
        if order == "incremental":
            bias = np.expm1(turn / 2) ** 2 * terms(1, E, turn)
            return p.mu / 2 * (start + p.zeta / p.mu * bias) ** 2
        if order == "once":
            spread = _shuffled(pulls, p.M) * terms(1, E, turn) ** 2
        elif order == "reshuffled":
            spread = _shuffled(pulls, p.M) * terms(2, E, turn)
        elif order == "replacement":
            spread = (pulls**2).sum(-1) * terms(2, E, turn)
        else:
            both = np.exp(turn)[..., None] * pulls + pulls[..., ::-1]  # an epoch, and the same backwards
            spread = _shuffled(both, p.M) * terms(4, E // 2, turn)
            if E % 2:
                spread = np.exp(2 * turn) * spread + _shuffled(pulls, p.M)
        return p.mu / 2 * (start**2 + (p.zeta / p.mu) ** 2 * spread)


def least_error(error: Callable[[str, Chain, Floats], Floats], order: str, p: Chain) -> Least:
    """At the learning rate, up to 1/L, where an error or a bound is least."""
    return least(lambda eta: error(order, p, eta), 1 / p.L, p.M * p.K, p.epochs)


def least(error: Callable[[Floats], Floats], most: float, steps: int, again: int) -> Least:
    """At the rate, up to the largest one, where what is asked for is least; steps: of an epoch, which comes again."""
    rates = np.geomspace(most * 1e-3 / (steps * again), most, FINE)
    pieces = min(FINE, 1 + FINE * steps // ROOM)
    found = np.concatenate([error(some) for some in np.array_split(rates, pieces)])
    if np.isnan(found).all():
        return Least(float("nan"), float("nan"))
    best = int(np.nanargmin(found))
    low, high = rates[max(best - 1, 0)], rates[min(best + 1, FINE - 1)]
    eta = float(minimiser(error, low, high))
    return Least(float(error(np.asarray(eta))), eta)


def costs(p: Chain) -> list[Cost]:
    """Of every order."""
    return [
        Cost(order, rate, least_error(order_bound, order, p), least_error(order_error, order, p))
        for order, rate in ORDER_RATES.items()
    ]


def _shuffled(weights: Floats, M: int) -> Floats:
    """The variance of sum w_j s_j over shuffled signs, M/2 of each."""
    apart = weights - weights.mean(-1, keepdims=True)
    return np.asarray((apart**2).sum(-1) * M / (M - 1))
