"""Who is ahead where: sequential and parallel training of quadratics over delta, zeta_*, K and S.

A place of the map is a problem with exactly these constants. By measurement: each side at the best of a grid of
effective rates, F(x^(R)) - F* over seeds. By the bounds: Theorems 1 and 2 at their own best rates, which do not know
delta.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from baton.constants import measure, symbols
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Store
from baton.theory import ALGORITHMS, bound
from baton.verdict import difference

FLOOR = 1e-20  # gaps below are rounding: x is as good as x*


class Grid(NamedTuple):
    """A map's places, and what they share."""

    delta: Sequence[float] = (0.0, 0.05, 0.2, 0.75)
    zeta: Sequence[float] = (0.0, 0.3, 1.0, 3.0, 10.0)
    K: Sequence[int] = (1, 4, 16)
    S: Sequence[int] = (2, 8)
    M: int = 8
    R: int = 100
    L: float = 2.0
    mu: float = 0.5
    sigma: float = 0.0
    dim: int = 4
    rates: int = 10  # effective rates that both sides choose from: halves, down from 2/L
    seeds: int = 4

    @property
    def effective(self) -> list[float]:
        """The rates eta_tilde."""
        return [2 / self.L / 2**i for i in range(self.rates)]


class Place(NamedTuple):
    """One place of a map."""

    delta: float
    zeta: float
    K: int
    S: int
    measured: Mapping[str, float]  # algorithm -> F(x) - F*, the geometric mean over seeds, at its best rate; inf: none
    rate: Mapping[str, float]  # algorithm -> that rate, eta_tilde
    ahead: str  # the algorithm that is ahead beyond its 95 % interval over seeds; none: nothing
    bounds: Mapping[str, float]  # algorithm -> its least bound; nan where there is none

    @property
    def decades(self) -> float:
        """By how many powers of ten sequential's error is the smaller one."""
        return float(np.log10(self.measured["parallel"] / self.measured["sequential"]))

    @property
    def promised(self) -> str:
        """The algorithm with the smaller bound; nothing where they are equal to three digits, or there are none."""
        one, other = (self.bounds[name] for name in ALGORITHMS)
        if not np.isfinite(one + other) or abs(one - other) <= 1e-3 * min(one, other):
            return ""
        return min(ALGORITHMS, key=lambda name: self.bounds[name])


def check(grid: Grid) -> None:
    """One line where a map cannot be drawn; the data set checks its own constants."""
    for name in ("delta", "zeta", "K", "S"):
        values = list(getattr(grid, name))
        if not values or values != sorted(set(values)):
            raise BadInput(
                f"{name}: {', '.join(f'{x:g}' for x in values)}; different values, smallest first, are right"
            )
    for name, least in (("rates", 2), ("seeds", 2)):
        if getattr(grid, name) < least:
            raise BadInput(f"{name}: {getattr(grid, name)}; at least {least} is right")


def at_an_end(grid: Grid, place: Place) -> bool:
    """Whether a side's best rate is the first or the last of the grid, and its error is not mere rounding."""
    ends = (grid.effective[0], grid.effective[-1])
    return any(place.measured[name] > 1.01 * FLOOR and place.rate[name] in ends for name in ALGORITHMS)


def settings(grid: Grid) -> list[Setting]:
    """Every run of a map."""
    return [
        s for where in _places(grid) for name in ALGORITHMS for h in grid.effective for s in _runs(grid, where, name, h)
    ]


def places(grid: Grid, store: Store) -> list[Place]:
    """The whole map, from a store that has every run."""
    return [_place(grid, where, store) for where in _places(grid)]


Where = tuple[float, float, int, int]  # delta, zeta, K, S


def _places(grid: Grid) -> list[Where]:
    return list(product(grid.delta, grid.zeta, grid.K, grid.S))


def _runs(grid: Grid, where: Where, algorithm: str, h: float) -> list[Setting]:
    """The seeds of one side at one effective rate."""
    delta, zeta, K, S = where
    numbers = f"dim={grid.dim},L={grid.L!r},mu={grid.mu!r},zeta={zeta!r},delta={delta!r},sigma={grid.sigma!r}"
    lr = h / (S * K if algorithm == "sequential" else K)
    shared = {"dataset": f"quadratic_random:{numbers}", "model": "quadratic:start=1.0", "clients": grid.M}
    shared |= {"participants": S, "local_steps": K, "rounds": grid.R, "eval_every": grid.R}
    return [Setting(**shared, algorithm=algorithm, lr=lr, seed=seed) for seed in range(grid.seeds)]


def _place(grid: Grid, where: Where, store: Store) -> Place:
    delta, zeta, K, S = where
    scores, rate = {}, {}
    for name in ALGORITHMS:
        tried = {h: _logs(_runs(grid, where, name, h), store) for h in grid.effective}
        rate[name] = min(tried, key=lambda h: sum(tried[h].values()))
        scores[name] = tried[rate[name]]
    apart = difference(scores["parallel"], scores["sequential"])
    ahead = ("sequential" if apart.mean > 0 else "parallel") if apart.clear else ""
    first = _runs(grid, where, "sequential", 1.0)[0]
    known = symbols(measure(first, torch.device("cpu")))[1]
    counts = {"M": grid.M, "S": S, "K": K, "R": grid.R}
    found = {name: bound(name, "strongly_convex", strict=False, **known, **counts) for name in ALGORITHMS}
    bounds = {name: float(one.total) if one.valid else float("nan") for name, one in found.items()}
    measured = {name: float(10 ** np.mean(list(own.values()))) for name, own in scores.items()}
    return Place(delta, zeta, K, S, measured, rate, ahead, bounds)


def _logs(runs: Sequence[Setting], store: Store) -> dict[int, float]:
    """Seed -> log10 of F(x^(R)) - F*; inf where a run left the finite numbers."""
    found = {}
    for s in runs:
        gap = store.read(s.run_id).metrics["objective_gap"][-1]
        found[s.seed] = float(np.log10(max(gap, FLOOR))) if np.isfinite(gap) else float("inf")
    return found
