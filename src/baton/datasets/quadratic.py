"""Quadratics F_m(x) = x' A_m x / 2 + c_m' x, one sample a client: the paper's simulations, and random families.

A sample is the row (A_m flattened, c_m, sigma). Gaussian gradient noise is an augmentation: a fresh draw added to c_m,
so that E|g - grad F_m|^2 = sigma^2.
"""

import torch
from torch import Tensor

from baton import limits, rng
from baton.datasets.base import Dataset, Optimum, Source, by_spec
from baton.errors import BadInput


def dimension(width: int) -> int:
    """d from the row's width d^2 + d + 1."""
    return int((4 * width - 3) ** 0.5) // 2


def split(sample: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A row [..., d^2 + d + 1] -> A [..., d, d], c [..., d], sigma [..., 1]."""
    d = dimension(sample.shape[-1])
    hessian = sample[..., : d * d].reshape(*sample.shape[:-1], d, d)
    return hessian, sample[..., d * d : -1], sample[..., -1:]


def _loss(output: Tensor, y: Tensor) -> Tensor:
    return output


def _noise(sample: Tensor, key: Tensor) -> Tensor:
    hessian, c, sigma = split(sample)
    draw = rng.normal(rng.bits(key, torch.arange(c.numel(), device=c.device).view(c.shape)), c.dtype)
    return torch.cat([hessian.flatten(-2), c + sigma * draw / c.shape[-1] ** 0.5, sigma], -1)


def _dataset(hessian: Tensor, c: Tensor, sigma: float) -> Dataset:
    """A_m [M, d, d], c_m [M, d]. The test set is all clients, so that test_loss is F(x)."""
    mean = hessian.mean(0)
    optimum = torch.linalg.solve(mean, -c.mean(0))
    rows = torch.cat([hessian.flatten(1), c, torch.full((len(c), 1), sigma, dtype=c.dtype)], 1)
    label = torch.zeros(len(rows), dtype=torch.int64)
    augment = _noise if sigma > 0 else None
    return Dataset(
        rows, label, rows, label, 0, _loss, augment, owner=torch.arange(len(rows)), optimum=Optimum(optimum, mean)
    )


def pair(clients: int, *, zeta: float = 1.0, delta: float = 0.0) -> Dataset:
    """The paper's two clients: F_1 = (1 + delta)/2 x^2 + zeta x and F_2 = (1 - delta)/2 x^2 - zeta x."""
    if clients != 2:
        raise BadInput(f"clients: {clients}; the quadratic pair has exactly 2 (quadratic_random takes any number)")
    if not 0 <= delta <= 1:
        raise BadInput(f"dataset: quadratic has delta={delta}; 0 <= delta <= 1 keeps both clients convex")
    if not 0 <= zeta < float("inf"):
        raise BadInput(f"dataset: quadratic has zeta={zeta}; a finite zeta >= 0 is right")
    hessian = torch.tensor([1 + delta, 1 - delta], dtype=torch.float64).view(2, 1, 1)
    return _dataset(hessian, torch.tensor([[zeta], [-zeta]], dtype=torch.float64), 0.0)


def random(
    clients: int,
    *,
    dim: int = 10,
    L: float = 10.0,
    mu: float = 1.0,
    zeta: float = 1.0,
    delta: float = 1.0,
    sigma: float = 0.0,
    seed: int = 0,
) -> Dataset:
    """M clients in R^d with exactly these constants.

    Hessians share a random orthonormal basis: their mean has eigenvalues from mu + delta to L - delta, and half of the
    clients add, the other half subtract, one matrix with eigenvalues +-delta (an odd client out keeps the mean). So the
    largest eigenvalue over clients is L, the smallest mu, and max |A_m - A| = delta. The gradients at the optimum sum
    to zero and their mean square is zeta^2; the optimum is a random point of norm 1.
    """
    _check_family(clients, dim, L, mu, zeta, delta, sigma)
    if not 0 <= seed < 1 << 63:
        raise BadInput(f"dataset: quadratic_random has seed={seed}; 0 <= seed < 2^63 is right")
    size = 6 * 8 * clients * (dim * dim + dim + 1)  # bytes of all rows, and of what is made on the way to them
    limits.fits(size, f"dataset: quadratic_random has {clients:,} clients in dim={dim}")
    key = rng.bits(torch.tensor(seed), rng.DATA)

    def draw(purpose: int, *shape: int) -> Tensor:
        return rng.normal(rng.bits(key, purpose, torch.arange(torch.Size(shape).numel())), torch.float64).view(shape)

    basis = torch.linalg.qr(draw(0, dim, dim)).Q
    mean = torch.linspace(mu + delta, L - delta, dim, dtype=torch.float64)
    tilt = delta * torch.sign(draw(1, dim))
    tilt[0] = tilt[-1] = delta  # the ends of the spectrum reach mu and L whatever the other signs
    side = torch.zeros(clients, dtype=torch.float64)
    side[: clients // 2], side[clients - clients // 2 :] = 1.0, -1.0
    eigen = mean + side.unsqueeze(1) * tilt  # [M, d]
    hessian = basis @ torch.diag_embed(eigen) @ basis.T
    slope = draw(2, clients, dim)  # gradients at the optimum
    slope = slope - slope.mean(0)
    scale = slope.square().sum(1).mean().sqrt()
    slope = slope * (zeta / scale) if zeta > 0 else torch.zeros_like(slope)
    optimum = draw(3, dim)
    optimum = optimum / optimum.norm()
    return _dataset(hessian, slope - hessian @ optimum, sigma)


def _check_family(clients: int, dim: int, L: float, mu: float, zeta: float, delta: float, sigma: float) -> None:
    for symbol, value, right in (
        ("dim", dim, dim >= 1),
        ("mu", mu, mu > 0),
        ("L", L, mu <= L < float("inf")),
        ("zeta", zeta, 0 <= zeta < float("inf") and (clients > 1 or zeta == 0)),
        ("delta", delta, 0 <= 2 * delta <= L - mu + 1e-9 and (clients > 1 or delta == 0)),
        ("sigma", sigma, 0 <= sigma < float("inf")),
    ):
        if not right:
            rule = (
                "dim >= 1, 0 < mu <= L, 0 <= 2 delta <= L - mu, zeta >= 0, sigma >= 0, and zeta = delta = 0 for M = 1"
            )
            raise BadInput(f"dataset: quadratic_random has {symbol}={value}; right is {rule}")
    if dim == 1 and abs(L - mu - 2 * delta) > 1e-9:
        raise BadInput(f"dataset: quadratic_random has dim=1, L={L}, mu={mu}; in one dimension L - mu must be 2 delta")


def sides(clients: int, *, mu: float = 1.0, zeta: float = 1.0) -> Dataset:
    """F_m(x) = mu/2 x^2 + zeta x for the first half of the clients, mu/2 x^2 - zeta x for the other.

    Lower bounds on what orders of clients cost are proved with these: baton orders.
    """
    if clients % 2:
        raise BadInput(f"clients: {clients}; quadratic_sides has as many on either side: an even number is right")
    for symbol, value, right, rule in (
        ("mu", mu, 0 < mu < float("inf"), "finite and above 0"),
        ("zeta", zeta, 0 <= zeta < float("inf"), "finite and not below 0"),
    ):
        if not right:
            raise BadInput(f"dataset: quadratic_sides has {symbol}={value}; {rule} is right")
    c = torch.full((clients, 1), float(zeta), dtype=torch.float64)
    c[clients // 2 :] *= -1
    return _dataset(torch.full((clients, 1, 1), float(mu), dtype=torch.float64), c, 0.0)


PAIR = Source(pair, "quadratic", 2, "natural", "float64", shape=(), content=by_spec)
SIDES = Source(sides, "quadratic", 10, "natural", "float64", shape=(), content=by_spec)
RANDOM = Source(random, "quadratic", 10, "natural", "float64", shape=("dim",), content=by_spec)
