"""The iterate that the theorems speak of: an average of x^(0) .. x^(R), or one of them drawn."""

from math import isfinite, log1p
from typing import Any

import numpy as np

from baton.errors import BadInput
from baton.theory.symbols import CASES, Floats, check_name


def weights(rounds: int, case: str, mu: float | None = None, eta_tilde: float | None = None) -> Floats:
    """w_r = (1 - mu eta_tilde/2)^-(r + 1) over their sum, r = 0..R; convex and nonconvex 1/(R + 1).

    From logarithms, counted back from the last: they neither overflow nor vanish together, however large R. In the
    nonconvex case they are the probabilities with which the theorem draws one iterate.
    """
    check_name("case", case, CASES)
    if rounds < 0 or rounds != int(rounds):
        raise BadInput(f"R: {rounds}; a whole number of 0 or more is right")
    count = int(rounds) + 1
    if case != "strongly_convex":
        return np.full(count, 1 / count)
    for symbol, value in (("mu", mu), ("eta_tilde", eta_tilde)):
        if value is None:
            raise BadInput(f"{symbol}: missing; the strongly convex weights are (1 - mu eta_tilde/2)^-(r + 1)")
        if not (isfinite(value) and value > 0):
            raise BadInput(f"{symbol}: {value:g}; a number above 0 is right")
    assert mu is not None
    assert eta_tilde is not None
    if mu * eta_tilde >= 2:
        raise BadInput(f"eta_tilde: {eta_tilde:g}; below 2/mu = {2 / mu:.6g} is right")
    back = np.exp(log1p(-mu * eta_tilde / 2) * np.arange(count - 1, -1, -1))  # w_r/w_R
    return np.asarray(back / back.sum())


def average(iterates: Any, case: str, mu: float | None = None, eta_tilde: float | None = None) -> Any:
    """The sum of w_r x^(r) over the sum of w_r; iterates [R + 1, ...], x^(0) first.

    Nonconvex: the mean over r, which the theorem bounds for numbers such as |grad F(x^(r))|^2, not for the iterates.
    """
    try:
        values = np.asarray(iterates, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput("iterates: not numbers of one shape; an array [R + 1, ...] is right") from None
    if values.ndim == 0 or not len(values):
        raise BadInput(f"iterates: shape {list(values.shape)}; [R + 1, ...] is right, x^(0) first")
    found = np.tensordot(weights(len(values) - 1, case, mu, eta_tilde), values, axes=1)
    return found.item() if found.ndim == 0 else found
