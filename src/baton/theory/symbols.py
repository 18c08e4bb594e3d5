"""The symbols of Theorems 1 and 2, each a number or an array; arrays broadcast against each other."""

from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput, nearest

Floats = NDArray[np.float64]
Number = float | NDArray[Any]

ALGORITHMS = ("sequential", "parallel")  # Algorithm 1, Algorithm 2
CASES = ("strongly_convex", "convex", "nonconvex")
TERMS = ("optimisation", "noise", "participation", "drift_noise", "drift_heterogeneity")

_ALWAYS = ("L", "sigma", "zeta", "M", "K", "R")
NEEDED = {  # S is M and beta 0 unless given
    "strongly_convex": (*_ALWAYS, "mu", "D"),
    "convex": (*_ALWAYS, "D"),
    "nonconvex": (*_ALWAYS, "A"),
}
MEANING = {
    "L": "smoothness of every local objective",
    "mu": "strong convexity of every local objective",
    "sigma": "standard deviation of a stochastic gradient",
    "zeta": "heterogeneity: zeta_*, at the optimum, in the convex cases; zeta of Assumption 3a in the nonconvex one",
    "beta": "growth of the heterogeneity with the gradient, Assumption 3a",
    "D": "distance from the first iterate to the optimum",
    "A": "F at the first iterate less its infimum",
    "M": "all clients",
    "S": "clients of one round",
    "K": "steps of one leg",
    "R": "rounds",
}


class Symbols(TypedDict, total=False):
    """What a bound is a function of, by the paper's letters (MEANING says what they are)."""

    L: Number
    mu: Number
    sigma: Number
    zeta: Number
    beta: Number
    D: Number
    A: Number
    M: Number
    S: Number | None
    K: Number
    R: Number


class Problem(NamedTuple):
    """The same, read: arrays of float64; what a case does not use is 0."""

    L: Floats
    mu: Floats
    sigma: Floats
    zeta: Floats
    beta: Floats
    D: Floats
    A: Floats
    M: Floats
    S: Floats
    K: Floats
    R: Floats


def read(algorithm: str, case: str, given: Symbols) -> Problem:
    """The symbols a case uses; others are left aside, so that one set of them serves all cases."""
    check_name("algorithm", algorithm, ALGORITHMS)
    check_name("case", case, CASES)
    for symbol in given:
        if symbol not in MEANING:
            raise BadInput(f"{symbol}: no such symbol; {nearest(symbol, MEANING)}")
    values: dict[str, Any] = {symbol: value for symbol, value in given.items() if value is not None}
    for symbol in NEEDED[case]:
        if symbol not in values:
            raise BadInput(f"{symbol}: missing; the {case} case needs it ({MEANING[symbol]})")
    values.setdefault("S", values["M"])
    used = used_symbols(case)
    found = Problem(**{s: array(s, values.get(s, 0.0) if s in used else 0.0) for s in Problem._fields})
    together(found._asdict())
    return found


def used_symbols(case: str) -> set[str]:
    """Those that a case's bound depends on."""
    return {*NEEDED[case], "S"} | ({"beta"} if case == "nonconvex" else set())


def array(symbol: str, value: Any) -> Floats:
    """Float64, or one line."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{symbol}: {value!r}; a number or an array of numbers is right") from None


def together(values: dict[str, Floats]) -> tuple[int, ...]:
    """The shape all of them broadcast to."""
    try:
        return np.broadcast_shapes(*(value.shape for value in values.values()))
    except ValueError:
        shapes = ", ".join(f"{symbol} {list(value.shape)}" for symbol, value in values.items() if value.ndim)
        raise BadInput(f"shapes that do not fit together: {shapes}; equal ones, or 1, are right") from None


def check_name(field: str, word: str, known: tuple[str, ...]) -> None:
    """An algorithm or a case."""
    if word not in known:
        raise BadInput(f"{field}: {word!r} is not known; {nearest(str(word), known)}")


def plain(value: Any, shape: tuple[int, ...]) -> Any:
    """A float (or bool) where all symbols are numbers, else an array of its own."""
    return np.asarray(value).item() if shape == () else np.broadcast_to(value, shape).copy()
