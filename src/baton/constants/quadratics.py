"""The constants of quadratics F_m(x) = x' A_m x / 2 + c_m' x, one sample a client: all exact, by linear algebra."""

from math import sqrt

import torch
from torch import Tensor

from baton.constants.found import EXACT, Constant
from baton.constants.objective import Objective
from baton.datasets.quadratic import split


def exact(objective: Objective) -> dict[str, Constant]:
    """Every constant, for all x."""
    rows = objective.table.x[objective.table.samples]  # one a client, in their order
    hessian, slope, noise = split(rows)
    eye = torch.eye(objective.size, dtype=rows.dtype, device=rows.device)
    hessian = (hessian + hessian.mT) / 2 + objective.decay * eye
    mean = hessian.mean(0)
    optimum = torch.linalg.solve(mean, -slope.mean(0))
    away = objective.start() - optimum
    eigen = torch.linalg.eigvalsh(hessian)
    there = hessian @ optimum + slope  # [M, d] gradients at the optimum
    rounding = 1e-14 * float(eigen.abs().max() * optimum.norm() + slope.abs().max())
    there = there if float(there.abs().max()) > rounding else torch.zeros_like(there)
    other = hessian - mean
    lowest = float(eigen.min())
    width = objective.setting.batch_size if objective.setting.sampling == "replacement" else 1
    variance = noise.squeeze(-1).square() / width
    beta2, zeta2 = _pair(mean, other, there, float((mean @ away).square().sum()))
    found = {
        "L": float(eigen.abs().max()),
        "mu": lowest if lowest > 1e-12 * float(eigen.max()) else 0.0,
        "sigma2": float(variance.max()),
        "sigma2_mean": float(variance.mean()),
        "zeta_star2": float(there.square().sum(1).mean()),
        "beta2": beta2,
        "zeta2": zeta2,
        "delta": float(torch.linalg.eigvalsh(other).abs().max()),
        "D": float(away.norm()),
        "A": float(away @ mean @ away) / 2,
    }
    notes = {
        "beta2": "with zeta2: of all valid pairs the least beta2 |grad F(x0)|^2 + zeta2",
        "mu": "" if found["mu"] else "not strongly convex",
    }
    return {name: Constant(value, EXACT, note=notes.get(name, "")) for name, value in found.items()}


def _pair(mean: Tensor, other: Tensor, there: Tensor, at: float) -> tuple[float, float]:
    """The (beta^2, zeta^2) valid for all x that is least at |grad F|^2 = at.

    With u = x - x* the diversity is u' B u + 2 b' u + zeta_*^2, where B and b are the means of (A_m - A)^2 and of
    (A_m - A) grad F_m(x*), and |grad F|^2 is |A u|^2. So beta^2 must be at least the largest eigenvalue of
    A^-1 B A^-1, and then zeta^2 = zeta_*^2 + sum_i c_i^2 / (beta^2 - lambda_i), c being A^-1 b in its eigenvectors.
    """
    star = float(there.square().sum(1).mean())
    b = (other @ there.unsqueeze(-1)).squeeze(-1).mean(0)
    inverse = torch.linalg.inv(mean)
    value, vector = torch.linalg.eigh(inverse @ (other @ other).mean(0) @ inverse)
    c2 = (vector.T @ (inverse @ b)).square()
    eigen = value.clamp(min=0).tolist()
    scale = star * float(inverse.norm() * other.norm(dim=(1, 2)).max()) ** 2
    parts = [(lam, c) for lam, c in zip(eigen, c2.tolist(), strict=True) if c > 1e-24 * scale]  # the rest is rounding
    lowest = max(eigen)
    if not parts:
        return lowest, star
    at = at or star  # a run that starts at x* says nothing about the trade

    def rest(over: float, power: int) -> float:
        """zeta^2 - zeta_*^2, or minus its derivative, at beta^2 = lowest + over."""
        return float(sum(c / (lowest - lam + over) ** power for lam, c in parts))

    low, high = 0.0, sqrt(sum(c for _, c in parts) / at)
    if max(lam for lam, _ in parts) < lowest and rest(0.0, 2) <= at:
        return lowest, star + rest(0.0, 1)
    for _ in range(200):  # where the derivative, at - rest(over, 2), passes zero
        middle = (low + high) / 2
        low, high = (middle, high) if rest(middle, 2) > at else (low, middle)
    return lowest + high, star + rest(high, 1)
