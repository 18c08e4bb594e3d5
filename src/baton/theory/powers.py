"""Powers of 1 - eta mu and their sums, by logarithms: exact at tiny rates, and at eta mu = 1."""

import numpy as np

from baton.theory.symbols import Floats


def log_left(part: Floats) -> Floats:
    """log(1 - part), part up to 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-np.minimum(part, 1.0)))


def times(count: Floats | int, log: Floats) -> Floats:
    """count * log, and 0 where count is 0 (log may be -inf)."""
    return np.where(np.asarray(count) == 0, 0.0, np.asarray(count) * log)


def terms(each: int, count: int, log: Floats) -> Floats:
    """1 + q + ... + q^(count - 1), q = exp(each log)."""
    if count == 0:
        return np.zeros(np.shape(log))
    return np.where(log == 0, float(count), np.expm1(times(each * count, log)) / np.expm1(each * log))
