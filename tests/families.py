"""Objectives whose constants are known, to hold the theorems against; `families:...` where a registered name could be.

A sample is a client's row, which ends in the slope c_m [d] and sigma: gradient noise is a draw added to the slope.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from baton import rng
from baton.datasets import Dataset, base, digits, quadratic
from baton.theory.groups import _sides


def quadratics(
    clients: int,
    *,
    dim: int = 3,
    L: float = 4.0,
    mu: float = 1.0,
    zeta: float = 1.0,
    sigma: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """F_m(x) = x' A_m x / 2 + c_m' x, every Hessian with a basis and a spectrum of its own, between mu and L.

    One client has both mu and L (dim 1: two clients have one each); the optimum is a random point of norm 1.
    """
    draw = np.random.default_rng(seed)
    eigen = draw.uniform(mu, L, (clients, dim))
    eigen[0, 0], eigen[-1, -1] = mu, L
    basis = np.linalg.qr(draw.normal(size=(clients, dim, dim))).Q
    hessian = np.einsum("mij,mj,mkj->mik", basis, eigen, basis)
    optimum = draw.normal(size=dim)
    slope = _spread(draw, clients, dim, zeta) - hessian @ (optimum / np.linalg.norm(optimum))
    return quadratic._dataset(torch.from_numpy(hessian), torch.from_numpy(slope), sigma)


def pairs(clients: int, *, delta: float = 0.5, zeta: float = 1.0, sigma: float = 0.0) -> Dataset:
    """The paper's pair many times over: (1 + delta)/2 x^2 + zeta x at half of the clients, (1 - delta)/2 x^2 - zeta x.

    Where the curvature is larger the gradient points one way, so drift is biased. mu, L = 1 -+ delta, zeta_* = zeta.
    """
    side = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(clients // 2)
    return quadratic._dataset((1 + delta * side).view(-1, 1, 1), zeta * side.view(-1, 1), sigma)


def kinked(
    clients: int,
    *,
    low: float = 1.0,
    high: float = 2.0,
    zeta: float = 1.0,
    sigma: float = 0.0,
    flat: float = 0.0,
    halves: bool = False,
) -> Dataset:
    """F_m(x) = low/2 min(x, 0)^2 + high/2 max(x, 0)^2 +- zeta x on the line: the curvature jumps at the optimum, 0.

    The lower bounds of SGD with random reshuffling are made of these: a round's walk to both sides of 0 is answered
    more strongly on one of them. mu = low, L = high, zeta_* = zeta; clients in even number. flat > 0: one coordinate
    more, flat/2 y^2 for everybody, so that mu = flat. halves: not every second client pulls to the other side, but the
    second half of them, which makes the natural order a bad one.
    """
    other = np.arange(clients) * 2 // clients if halves else np.arange(clients) % 2
    side = np.where(other, -zeta, zeta)[:, None]
    below, above, slope = np.full((clients, 1), low), np.full((clients, 1), high), side
    if flat:
        more = np.full((clients, 1), flat)
        below, above, slope = np.hstack([below, more]), np.hstack([above, more]), np.hstack([side, 0 * side])
    return _rows(below, above, slope, sigma)


def pulled(
    clients: int, *, mu: float = 1.0, zeta: float = 1.0, seed: int = 0, groups: int = 0, within: float = 0.0
) -> Dataset:
    """F_m(x) = mu/2 x^2 + c_m x; the c_m sum to zero, zeta_* = zeta. All at random, or those of so many groups.

    Groups: one half of them, and of each group's clients, to either side, as baton orders has it.
    """
    if groups:
        inside = within * _sides(clients // groups)
        slope = (((zeta**2 - within**2) ** 0.5 * _sides(groups))[:, None] + inside).reshape(-1, 1)
    else:
        slope = _spread(np.random.default_rng(seed), clients, 1, zeta)
    return quadratic._dataset(torch.full((clients, 1, 1), mu, dtype=torch.float64), torch.from_numpy(slope), 0.0)


def bumps(
    clients: int,
    *,
    dim: int = 2,
    depth: float = 1.0,
    shift: float = 0.0,
    zeta: float = 1.0,
    sigma: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """F_m(x) = the sum over coordinates of depth phi(x_i - s_mi), plus c_m' x; phi(t) = t^2/(1 + t^2), not convex.

    The c_m sum to zero, their mean square is zeta^2; s_m within +-shift. Constants: bump_constants.
    """
    draw = np.random.default_rng(seed)
    centre = draw.uniform(-shift, shift, (clients, dim))
    return _rows(np.full((clients, dim), depth), centre, _spread(draw, clients, dim, zeta), sigma)


def few_digits(clients: int) -> Dataset:
    """90 digits, 0, 1 and 2, eight pixels each: logistic regression that takes no time."""
    whole = digits.load(clients)
    some = (whole.y < 3).nonzero().flatten()[:90]
    x, y = whole.x[some][:, 10:54:6], whole.y[some]
    return Dataset(x, y, x[:9], y[:9], 3, base.cross_entropy, owner=torch.arange(90) * clients // 90)


class _Point(nn.Module):
    """x, which starts at the same number in every coordinate; its output is the sample's own loss."""

    def __init__(self, dim: int, start: float) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.full((dim,), start, dtype=torch.float64))


class _Kinked(_Point):
    def forward(self, sample: Tensor) -> Tensor:
        low, high, c = sample[..., :-1].chunk(3, -1)
        below, above = self.x.clamp(max=0), self.x.clamp(min=0)
        return ((low * below * below + high * above * above) / 2 + c * self.x).sum(-1)


class _Bumps(_Point):
    def forward(self, sample: Tensor) -> Tensor:
        depth, centre, c = sample[..., :-1].chunk(3, -1)
        square = (self.x - centre).square()
        return (depth * square / (1 + square) + c * self.x).sum(-1)


def on_kink(shape: tuple[int, ...], classes: int, *, start: float = -1.0) -> nn.Module:  # noqa: ARG001
    return _Kinked(shape[0] // 3, start)


def on_bumps(shape: tuple[int, ...], classes: int, *, start: float = 2.0) -> nn.Module:  # noqa: ARG001
    return _Bumps(shape[0] // 3, start)


def kink_gap(data: Dataset, x: np.ndarray) -> np.ndarray:
    """F(x) - F*, x [..., d]."""
    low, high, _ = (part[0].numpy() for part in data.x[:, :-1].chunk(3, -1))
    return np.asarray((np.where(x < 0, low, high) * x**2).sum(-1) / 2)


def bump_gradient(data: Dataset, x: np.ndarray) -> np.ndarray:
    """|grad F(x)|^2, x [..., d]."""
    depth, centre, c = (part.numpy() for part in data.x[:, :-1].chunk(3, -1))
    t = x[..., None, :] - centre
    return np.square((depth * 2 * t / (1 + t**2) ** 2 + c).mean(-2)).sum(-1)


def bump_constants(data: Dataset, start: float) -> dict[str, float]:
    """L, sigma, zeta (beta = 0) and A of bumps: coordinates are apart, so each is looked at along a fine grid.

    |phi''| <= 2, and a grid of step s misses at most L s^2/8 of a minimum and s L zeta of zeta^2.
    """
    depth, centre, c = (part.numpy() for part in data.x[:, :-1].chunk(3, -1))
    step, L = 1e-3, 2 * float(depth.max())
    grid = np.arange(-30, 30, step)[:, None]
    zeta2, lowest = 0.0, 0.0
    for i in range(c.shape[1]):
        t = grid - centre[:, i]
        zeta2 += float((depth[:, i] * 2 * t / (1 + t**2) ** 2 + c[:, i]).var(1).max())
        lowest += float((depth[:, i] * t**2 / (1 + t**2)).mean(1).min()) - L * step**2 / 8
    at = (start - centre) ** 2
    zeta = zeta2**0.5 + L * step * c.shape[1]
    first = float((depth * at / (1 + at)).mean(0).sum())
    return {"L": L, "sigma": float(data.x[0, -1]), "zeta": zeta, "beta": 0.0, "A": first - lowest}


def _spread(draw: np.random.Generator, clients: int, dim: int, zeta: float) -> np.ndarray:
    """Vectors that sum to zero, of mean square zeta^2."""
    found = draw.normal(size=(clients, dim))
    found = found - found.mean(0)
    return np.asarray(found * zeta / np.sqrt((found**2).sum(1).mean()))


def _rows(first: np.ndarray, second: np.ndarray, slope: np.ndarray, sigma: float) -> Dataset:
    """Three vectors of R^d a client, and sigma."""
    rows = torch.from_numpy(np.concatenate([first, second, slope, np.full((len(slope), 1), sigma)], 1))
    label = torch.zeros(len(rows), dtype=torch.int64)
    augment = _noise if sigma > 0 else None
    return Dataset(rows, label, rows, label, 0, _loss, augment, owner=torch.arange(len(rows)))


def _loss(output: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001
    return output


def _noise(sample: Tensor, key: Tensor) -> Tensor:
    d = sample.shape[-1] // 3
    c, sigma = sample[..., -1 - d : -1], sample[..., -1:]
    draw = rng.normal(rng.bits(key, torch.arange(c.numel(), device=c.device).view(c.shape)), c.dtype)
    return torch.cat([sample[..., : -1 - d], c + sigma * draw / d**0.5, sigma], -1)


OWN: dict[str, dict[str, Any]] = {  # what a setting on such data must say
    "quadratics": {"model": "quadratic", "partition": "natural", "dtype": "float64"},
    "pulled": {"model": "quadratic", "partition": "natural", "dtype": "float64"},
    "pairs": {"model": "quadratic", "partition": "natural", "dtype": "float64"},
    "kinked": {"model": "families:on_kink", "partition": "natural", "dtype": "float64"},
    "bumps": {"model": "families:on_bumps", "partition": "natural", "dtype": "float64"},
}
