"""Rows held back for testing: a share of each site, and of each class in it."""

import zlib

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput

PURPOSE = 11  # beside the partitions' streams


def share(test: float) -> float:
    """A share that leaves something on both sides."""
    if not 0 < test < 1:
        raise BadInput(f"dataset: test={test:g}; above 0 and below 1 is right: the share of rows held back for testing")
    return test


def held_back(
    label: NDArray[np.int64], site: NDArray[np.int64], names: tuple[str, ...], test: float, seed: int
) -> NDArray[np.bool_]:
    """[N] whether a row is for testing. label: the class, or 0 everywhere; site: 0 .. len(names) - 1.

    A site's rows depend on its own name, rows and the seed alone: others may join and leave.
    """
    if seed < 0:
        raise BadInput(f"dataset: split_seed={seed}; a whole number from 0 up is right")
    share(test)
    chosen = np.zeros(len(label), dtype=bool)
    order = np.argsort(site, kind="stable")
    ends = np.cumsum(np.bincount(site, minlength=len(names)))
    for name, rows in zip(names, np.split(order, ends[:-1]), strict=True):
        draw = np.random.default_rng([seed, PURPOSE, zlib.crc32(name.encode())])
        if len(rows) > 1:
            chosen[rows[_stratified(label[rows], test, draw)]] = True
    return chosen


def _stratified(label: NDArray[np.int64], test: float, draw: np.random.Generator) -> NDArray[np.int64]:
    """Places of one site's test rows: so many of each class that shares are kept as well as whole numbers can."""
    kinds, own, sizes = np.unique(label, return_inverse=True, return_counts=True)
    count = min(len(label) - 1, max(1, int(np.floor(test * len(label) + 0.5))))
    exact = count * sizes / len(label)
    take = np.minimum(
        np.floor(exact).astype(np.int64), np.where(sizes > 1, sizes - 1, 0)
    )  # each class stays in training
    room = np.where(sizes > 1, sizes - 1, 0) - take
    for kind in np.argsort(-(exact - take), kind="stable"):  # the largest remainders first
        more = min(1, int(room[kind]), count - int(take.sum()))
        take[kind] += max(0, more)
    places = [draw.permutation(np.flatnonzero(own == kind))[: take[kind]] for kind in range(len(kinds))]
    return np.concatenate(places)
