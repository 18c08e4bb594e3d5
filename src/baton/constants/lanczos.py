"""The largest |eigenvalue| of one large symmetric operator whose products are dear: few steps from a good start.

`spectrum.ends` takes many operators, three starts each, and looks at the residual now and then; here one product may
take seconds, so the residual is looked at after each, and no product is spent on checking it: with its iterates kept
orthogonal the recurrence tells it to rounding.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Top(NamedTuple):
    """A Rayleigh quotient, its residual, and its vector."""

    value: float  # |theta|: never above the largest |eigenvalue|
    error: float  # |A v - theta v|: some eigenvalue lies this near
    vector: Tensor  # [d]
    steps: int


def top(apply: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, most: int) -> Top:
    """From `start` [d], until the residual is at most tolerance times the value, or `most` products are taken."""
    most = min(most, len(start))
    basis = start.new_empty(most, len(start))
    inside = start.new_zeros(most, most, dtype=torch.float64)
    basis[0] = start / start.norm()
    for j in range(most):
        image, along = without(basis[: j + 1], apply(basis[j]))
        inside[: j + 1, j] = inside[j, : j + 1] = along
        value, weight = torch.linalg.eigh(inside[: j + 1, : j + 1])
        place = int(value.abs().argmax())
        best, length = float(value[place].abs()), float(image.norm())
        rest = length * float(weight[j, place].abs())
        stuck = length <= 1e-12 * max(best, 1e-300)  # the iterates span an invariant subspace
        if j + 1 == most or stuck or rest <= tolerance * best:
            vector = weight[:, place].to(basis.dtype) @ basis[: j + 1]
            return Top(best, rest, vector / vector.norm(), j + 1)
        basis[j + 1] = image / length
    raise AssertionError


def without(basis: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    """What of a vector [d] lies outside an orthonormal basis [k, d], and its coordinates inside; by two steps."""
    total = basis.new_zeros(len(basis))
    for _ in range(2):
        inside = basis @ vector
        vector = vector - inside @ basis
        total = total + inside
    return vector, total.to(torch.float64)


def orthonormal(vectors: Tensor) -> Tensor:
    """A basis [k, d] of what vectors [n, d] span; one that lies in the span of those before it adds none."""
    rows: list[Tensor] = []
    for vector in vectors:
        rest = without(torch.stack(rows), vector)[0] if rows else vector
        if float(rest.norm()) > 1e-6 * float(vector.norm()):
            rows.append(rest / rest.norm())
    return torch.stack(rows)
