"""The nonconvex case: the mean over rounds of |grad F|^2, tuned, of functions whose parts do not meet.

Each function is a sum of two: the kink of `families`, begun at its optimum, where noise and drift are; and a way down
that all clients share, with F(x^(0)) - F* = A. There are several ways, one a coordinate; as no coordinate
knows of another, one run is all of the functions kink + way at once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from families import OWN
from measured import iterates, rate

A = 0.5
FLAT = np.geomspace(0.5, 5e-4, 12)  # curvatures of the ways that are valleys


class Steep(NamedTuple):
    """|grad F|^2 after each number of rounds, at the best rate of a grid, means over seeds."""

    mean: np.ndarray  # over all rounds, as the theorems have it; kink + phi
    late: np.ndarray  # over the second half of them
    hardest: np.ndarray  # over the second half; kink + the valley for which it is largest


class _Valleys(nn.Module):
    """The kink; then t^2/(1 + t^2) from t = 1, where it bends down; then a valley flat/2 t^2 for each flat."""

    def __init__(self, valleys: int) -> None:
        super().__init__()
        self.flat = torch.from_numpy(FLAT[:valleys])
        first = torch.tensor([0.0, 1.0], dtype=torch.float64)
        self.x = nn.Parameter(torch.cat([first, (2 * A / self.flat).sqrt()]))

    def forward(self, sample: Tensor) -> Tensor:
        low, high, c = sample[..., :-1].unbind(-1)
        x, square = self.x[0], self.x[1].square()
        kink = (low * x.clamp(max=0).square() + high * x.clamp(min=0).square()) / 2 + c * x
        return kink + square / (1 + square) + (self.flat * self.x[2:].square()).sum() / 2


def ways(shape: tuple[int, ...], classes: int, *, valleys: int = len(FLAT)) -> nn.Module:  # noqa: ARG001
    return _Valleys(valleys)


def squares(low: float, high: float, x: np.ndarray) -> np.ndarray:
    """The square of each coordinate of grad F, x [..., d]."""
    kink, t, rest = x[..., :1], x[..., 1:2], x[..., 2:]
    slopes = [np.where(kink < 0, low, high) * kink, 2 * t / (1 + t**2) ** 2, FLAT[: rest.shape[-1]] * rest]
    return np.square(np.concatenate(slopes, -1))


def steep(
    algorithm: str,
    M: int,
    K: int,
    rounds: Sequence[int],
    seeds: int,
    *,
    S: int | None = None,
    zeta: float = 0.0,
    sigma: float = 0.0,
    low: float = 1.0,
    rates: int = 6,
    slowest: float = 1 / 100,
    valleys: int = len(FLAT),
) -> Steep:
    """L = 2; low = 2 is no kink, so that noise or participation is all there is. S of M clients."""
    common = {"dataset": f"families:kinked:low={low!r},zeta={zeta!r},sigma={sigma!r}", **OWN["kinked"]}
    common |= {"model": f"valleys:ways:valleys={valleys}", "algorithm": algorithm, "clients": M, "local_steps": K}
    common |= {"participants": S or M, "rounds": max(rounds), "eval_every": max(rounds)}
    grid = np.geomspace(slowest, 1 / 12, rates)
    runs = iterates(common, [rate(algorithm, h, S or M, K) for h in grid], seeds)
    found = squares(low, 2.0, runs).mean(2)  # [R + 1, rates, d]

    def best(parts: np.ndarray, way: int) -> float:
        return float((parts[:, 0] + parts[:, way]).min())

    every, late = [found[: R + 1].mean(0) for R in rounds], [found[R // 2 : R + 1].mean(0) for R in rounds]
    hardest = [max((best(parts, 2 + i) for i in range(valleys)), default=0.0) for parts in late]
    return Steep(*(np.array(v) for v in ([best(p, 1) for p in every], [best(p, 1) for p in late], hardest)))
