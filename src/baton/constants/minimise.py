"""x*, where a convex F is smallest: Newton's method, its steps by conjugate gradients."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

TOLERANCE = 1e-8  # of |grad F|, in float64
POLISH = 1e-11  # Newton goes on to here while it can: its last step costs little and gains much


class Minimum(NamedTuple):
    """The best point found."""

    x: Tensor
    value: float
    gradient: float  # |grad F|
    attained: bool  # whether it is a minimiser, rather than a point on the way to infinity


def minimise(
    value: Callable[[Tensor], float],
    gradient: Callable[[Tensor], Tensor],
    product: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    precondition: Callable[[Tensor, Tensor], Tensor] = lambda _, r: r,
    hopeless: Callable[[Tensor], bool] = lambda _: False,
    most: int = 60,
) -> Minimum:
    """From x, with F, its gradient and its Hessian's products (x, v).

    precondition (x, r): r divided by something like the Hessian. hopeless: whether x shows that there is no minimiser.

    Attained: |grad F| <= 1e-8 and Newton's steps have become short. Where F falls all the way to infinity its gradient
    vanishes too, but each of Newton's steps is about as long as the one before.
    """
    f, g = value(x), gradient(x)
    length = float("inf")
    for _ in range(most):
        size = float(g.norm())
        if size <= POLISH:
            break
        if hopeless(x):
            return Minimum(x, f, size, False)
        step = _solve(partial(product, x), partial(precondition, x), -g, min(0.1, size**0.5))
        slope, rate = float(g @ step), 1.0
        while rate > 1e-9:
            x_new = x + rate * step
            f_new = value(x_new)
            if f_new <= f + 1e-4 * rate * slope + 1e-15 * abs(f):
                break
            rate /= 2
        g_new = gradient(x_new)
        if size <= TOLERANCE and float(g_new.norm()) >= size:
            break  # rounding
        length = rate * float(step.norm())
        x, f, g = x_new, f_new, g_new
    size = float(g.norm())
    return Minimum(x, f, size, size <= TOLERANCE and length <= 1e-3 * (1 + float(x.norm())))


def _solve(
    product: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    b: Tensor,
    tolerance: float,
    most: int = 2000,
) -> Tensor:
    """Conjugate gradients for H s = b, to a relative residual; what is flat in H stays out."""
    s, r = torch.zeros_like(b), b
    p = z = precondition(r)
    old, goal = float(r @ z), tolerance * float(b.norm())
    for _ in range(most):
        image = product(p)
        bent = float(p @ image)
        if bent <= 1e-300:
            return s if bool(s.any()) else b
        s, r = s + old / bent * p, r - old / bent * image
        if float(r.norm()) <= goal:
            break
        z = precondition(r)
        new = float(r @ z)
        p, old = z + new / old * p, new
    return s
