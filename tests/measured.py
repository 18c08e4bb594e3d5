"""Runs through the engine, seeds and rates as lanes, beside what the theorems say about them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import norm

from baton import datasets
from baton.constants import measure
from baton.lanes import Params
from baton.setting import Setting
from baton.simulate.engine import Program, advance, start
from baton.theory import average, best_rate, bound, largest_rate
from families import OWN, kink_gap

CPU = torch.device("cpu")
JITTER = "families:kinked:high=4,zeta=0,sigma=16"
Values = Callable[[np.ndarray], np.ndarray]  # of points [..., d]: F(x) - F*, or |grad F(x)|^2


class Ratio(NamedTuple):
    """What was measured beside what was proved."""

    algorithm: str
    case: str
    measured: float  # the mean over seeds
    error: float  # its standard error
    proved: float


def rate(algorithm: str, h: float, S: int, K: int) -> float:
    """The learning rate of an effective rate."""
    return h / (S * K if algorithm == "sequential" else K)


def iterates(common: dict[str, Any], rates: Sequence[float], seeds: int, together: bool = False) -> np.ndarray:
    """x^(0) .. x^(R) of every rate and seed, [R + 1, rates, seeds, d]; together: all begin where the first one does."""
    settings = [Setting(**common, lr=lr, seed=seed) for lr in rates for seed in range(seeds)]
    program = Program(settings, CPU)
    first = start(program)
    if together:
        one = {name: leaf[:1].expand_as(leaf).clone() for name, leaf in first.state.model.items()}
        first = first._replace(state=first.state._replace(model=one))
    points = [_flat(at.state.model) for at in (first, *advance(program, first))]
    assert np.isfinite(points[-1]).all()
    return np.stack(points).reshape(len(points), len(rates), seeds, -1)


def _flat(model: Params) -> np.ndarray:
    return torch.cat([leaf.flatten(1) for leaf in model.values()], 1).double().numpy()


def ratios(
    algorithm: str,
    symbols: dict[str, dict[str, Any]],
    common: dict[str, Any],
    values: dict[str, Values],
    part: float,
    seeds: int,
    together: bool = False,
) -> Iterator[Ratio]:
    """One problem, by case: its symbols, and F - F* or |grad F|^2. Rates: each case's best, and a part of its limit.

    After R rounds and after half of them; where the theorem says nothing about a rate or a number of rounds, nothing.
    """
    S, K, R = common.get("participants", common["clients"]), common["local_steps"], common["rounds"]
    counts = {"M": common["clients"], "S": S, "K": K, "R": R}
    symbols = {case: own | counts for case, own in symbols.items()}
    grid = [f(algorithm, case, strict=False, **own) for case, own in symbols.items() for f in (best_rate, largest_rate)]
    grid = [h * (part if i % 2 else 1) for i, h in enumerate(grid)]
    runs = iterates({**common, "algorithm": algorithm}, [rate(algorithm, h, S, K) for h in grid], seeds, together)
    for case, own in symbols.items():
        each = values[case](runs) if case == "nonconvex" else runs  # the mean of numbers, not the number of a mean
        for place, h in enumerate(grid):
            for rounds in {R, R // 2}:
                promised = bound(algorithm, case, eta_tilde=h, strict=False, **own | {"R": rounds})
                if promised.valid:
                    found = average(each[: rounds + 1, place], case, own.get("mu"), h)
                    found = found if case == "nonconvex" else values[case](found)
                    yield Ratio(algorithm, case, found.mean(), found.std(ddof=1) / seeds**0.5, promised.total)


def quadratic(common: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, Values]]:
    """A quadratic problem's symbols by case, all exact, and its F - F* and |grad F|^2."""
    found = {name: constant.value or 0.0 for name, constant in measure(Setting(**common), CPU).constants.items()}
    shared = {"L": found["L"], "mu": found["mu"], "sigma": found["sigma2"] ** 0.5, "D": found["D"], "A": found["A"]}
    convex = shared | {"zeta": found["zeta_star2"] ** 0.5}
    nonconvex = shared | {"zeta": found["zeta2"] ** 0.5, "beta": found["beta2"] ** 0.5}
    symbols = {"strongly_convex": convex, "convex": convex, "nonconvex": nonconvex}
    return symbols, quadratic_values(common["dataset"], common["clients"])


def quadratic_values(spec: str, clients: int) -> dict[str, Values]:
    """F - F* and |grad F|^2 at points [..., d]."""
    optimum = datasets.load(spec, clients).optimum
    assert optimum is not None
    best, hessian = optimum.x.numpy(), optimum.hessian.numpy()

    def gap(x: np.ndarray) -> np.ndarray:
        return np.asarray((((x - best) @ hessian) * (x - best)).sum(-1) / 2)

    def steepness(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.square((x - best) @ hessian).sum(-1))

    return {"strongly_convex": gap, "convex": gap, "nonconvex": steepness}


def tuned(
    common: dict[str, Any],
    values: Values,
    grid: Sequence[float],
    seeds: int,
    rounds: Sequence[int],
    case: str = "strongly_convex",
    mu: float | None = None,
) -> np.ndarray:
    """E[F(x) - F*], x the averaged iterate, at the best effective rate of the grid after each number of rounds."""
    S, K = common.get("participants", common["clients"]), common["local_steps"]
    whole = {**common, "rounds": max(rounds), "eval_every": max(rounds)}
    runs = iterates(whole, [rate(common["algorithm"], h, S, K) for h in grid], seeds)

    def error(R: int, place: int) -> float:
        return float(values(average(runs[: R + 1, place], case, mu, grid[place])).mean())

    return np.array([min(error(R, place) for place in range(len(grid))) for R in rounds])


def slope(x: Sequence[float], y: Sequence[float] | np.ndarray) -> float:
    """The exponent of y ~ x^slope, by least squares on logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# The tuned error of one family each, all in the strongly convex case unless they say so.


def kink(algorithm: str, M: int, K: int, rounds: Sequence[int], seeds: int, rates: int = 8) -> np.ndarray:
    """Drift alone, curvature that jumps at the optimum: mu = 1, L = 2, zeta_* = 4, D = 1, no noise, all clients."""
    common = {"dataset": "families:kinked:zeta=4", **OWN["kinked"], "model": "families:on_kink:start=-1"}
    common |= {"algorithm": algorithm, "clients": M, "local_steps": K}
    data = datasets.load(common["dataset"], M)
    grid = np.geomspace(5 / max(rounds), 1 / 12, rates).tolist()
    return tuned(common, lambda x: kink_gap(data, x), grid, seeds, rounds, mu=1.0)


def ordered_kink(
    order: str,
    M: int,
    K: int,
    rounds: Sequence[int],
    seeds: int,
    rates: int = 16,
    algorithm: str = "sequential",
) -> np.ndarray:
    """The last iterate of a chain of all clients in this order, on the same kink, [2, rounds]: means, their errors.

    Begun where drift and distance add up; one half of the clients after the other in the natural order.
    """
    spec, first = "families:kinked:zeta=4,halves=true", 1.0 if order == "incremental" else -1.0
    common = {"dataset": spec, **OWN["kinked"], "model": f"families:on_kink:start={first}", "schedule": order}
    common |= {"algorithm": algorithm, "clients": M, "local_steps": K}
    common |= {"rounds": max(rounds), "eval_every": max(rounds)}
    grid = np.geomspace(1.5 / max(rounds), 12 / min(rounds), rates)
    runs = iterates(common, [rate(algorithm, h, M, K) for h in grid], seeds)[list(rounds)]
    values = kink_gap(datasets.load(spec, M), runs)
    best = values.mean(-1).argmin(1)
    of_best = values[np.arange(len(rounds)), best]
    return np.stack([of_best.mean(-1), of_best.std(-1) / max(seeds - 1, 1) ** 0.5])


def jitter(algorithm: str, M: int, K: int, rounds: Sequence[int], seeds: int, rates: int = 6) -> np.ndarray:
    """Noise on the kink: mu = 1, L = 4, sigma = 16, D = 1, zeta_* = 0, all clients.

    With many of them parallel rounds are left with what the noise of local steps does at the kink: drift_noise.
    """
    common = {"dataset": JITTER, **OWN["kinked"], "model": "families:on_kink:start=-1"}
    common |= {"algorithm": algorithm, "clients": M, "local_steps": K}
    data = datasets.load(JITTER, M)
    return tuned(common, lambda x: kink_gap(data, x), jitter_rates(max(rounds), rates), seeds, rounds, mu=1.0)


def jitter_rates(R: int, rates: int) -> list[float]:
    return np.geomspace(7 / R, 1 / 24, rates).tolist()


def strayed(algorithm: str, M: int, K: int, h: Sequence[float], R: int, seeds: int) -> np.ndarray:
    """The same problem from x* at some effective rates: x of the second half of the rounds, [rates, ...]."""
    common = {"dataset": JITTER, **OWN["kinked"], "model": "families:on_kink:start=0", "algorithm": algorithm}
    common |= {"clients": M, "local_steps": K, "rounds": R, "eval_every": R}
    return np.moveaxis(iterates(common, [rate(algorithm, one, M, K) for one in h], seeds)[R // 2 :], 1, 0)


def endless(K: int, h: Sequence[float], R: int, start: float = -1.0) -> np.ndarray:
    """The same problem, parallel, with endlessly many clients, to first order in h: x^(0) .. x^(R), [R + 1, rates].

    Local step k begins at x + (h/K) sigma sqrt(k) z with z normal; the round goes by the mean of F' there.
    """
    step = np.array(h)
    spread = step[:, None] / K * 16 * np.sqrt(np.maximum(np.arange(K), 1e-12))
    points = [np.full(len(step), start)]
    for _ in range(R):
        x = points[-1][:, None]
        above = spread * norm.pdf(x / spread) + x * norm.cdf(x / spread)  # E max(x + spread z, 0)
        points.append(points[-1] - step * (x + 3 * above).mean(1))
    return np.stack(points)


def pairs(algorithm: str, M: int, K: int, rounds: Sequence[int], seeds: int, rates: int = 8) -> np.ndarray:
    """Drift alone, quadratics: mu = 1/2, L = 3/2, zeta_* = 4, D = 1, begun where drift and distance do not cancel."""
    spec, first = "families:pairs:delta=0.5,zeta=4", -1 if algorithm == "sequential" else 1
    common = {"dataset": spec, **OWN["pairs"], "model": f"quadratic:start={first}"}
    common |= {"algorithm": algorithm, "clients": M, "local_steps": K}
    grid = np.geomspace(4 / max(rounds), 1 / 9, rates).tolist()
    return tuned(common, quadratic_values(spec, M)["convex"], grid, seeds, rounds, mu=0.5)


def noise(algorithm: str, M: int, K: int, rounds: Sequence[int], seeds: int, rates: int = 8) -> np.ndarray:
    """Noise alone: mu = L = 1, sigma = 4 in 6 dimensions, all clients."""
    spec = "quadratic_random:dim=6,L=1,mu=1,delta=0,zeta=0,sigma=4"
    common = {"dataset": spec, "model": "quadratic:start=1", "algorithm": algorithm, "clients": M, "local_steps": K}
    grid = np.geomspace(1.5 / max(rounds), 1 / 6, rates).tolist()
    return tuned(common, quadratic_values(spec, M)["convex"], grid, seeds, rounds, mu=1.0)


def drawn(algorithm: str, S: int, K: int, rounds: Sequence[int], seeds: int, rates: int = 8) -> np.ndarray:
    """Participation alone: S of 9 clients that share one Hessian, mu = L = 1, zeta_* = 4 in 6 dimensions."""
    spec = "quadratic_random:dim=6,L=1,mu=1,delta=0,zeta=4"
    common = {"dataset": spec, "model": "quadratic:start=1", "algorithm": algorithm, "local_steps": K}
    common |= {"clients": 9, "participants": S}
    grid = np.geomspace(1.5 / max(rounds), 1 / 6, rates).tolist()
    return tuned(common, quadratic_values(spec, 9)["convex"], grid, seeds, rounds, mu=1.0)


def hard(algorithm: str, M: int, K: int, R: int, seeds: int, rates: int = 12) -> float:
    """The convex case, drift alone, at its hardest for R: the kink, zeta_* = 40, and a direction of little curvature.

    The convex corollary is about the worst function at each R, and a single one may do better: here it is one an R,
    whose curvature falls as (P R^2)^(-1/3), P = M for sequential and 1 for parallel.
    """
    flat = 5 * ((M if algorithm == "sequential" else 1) * R**2) ** (-1 / 3)
    common = {"dataset": f"families:kinked:zeta=40,flat={flat!r}", **OWN["kinked"]}
    common |= {"model": "families:on_kink:start=-1", "algorithm": algorithm, "clients": M, "local_steps": K}
    data = datasets.load(common["dataset"], M)
    grid = np.geomspace(1 / 300, 1 / 12, rates).tolist()
    return float(tuned(common, lambda x: kink_gap(data, x), grid, seeds, [R], "convex")[0])
