"""The first step of ExDir and of quantity-based imbalance: which clients hold which classes."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from baton.errors import BadInput
from baton.partitions.draws import PER_CLASS, TRIES, WORK, Ints, check_pairs

BLOCK = 1 << 18  # entries drawn at once, where allocations are small


class Holders(NamedTuple):
    """Who may hold class c: client[start[c] : start[c + 1]], in increasing order."""

    client: Ints  # [sum of the classes' holders]
    start: Ints  # [K + 1]

    def each(self) -> Iterator[slice]:
        """The entries of each class."""
        return (slice(int(a), int(b)) for a, b in zip(self.start[:-1], self.start[1:], strict=True))


def everyone(clients: int, classes: int) -> Holders:
    """Every client may hold every class."""
    check_pairs(clients, classes, "classes")
    return Holders(np.tile(np.arange(clients), classes), np.arange(classes + 1) * clients)


def subsets(draw: np.random.Generator, rows: int, classes: int, C: int) -> Ints:
    """C different classes for each row, every set of C equally likely (Floyd): [C, rows]."""
    chosen = np.empty((C, rows), dtype=np.int64)
    for i, top in enumerate(range(classes - C, classes)):
        pick = draw.integers(0, top + 1, rows)
        seen = (chosen[:i] == pick).any(0)
        chosen[i] = np.where(seen, top, pick)
    return chosen


def allocations(
    draw: np.random.Generator, clients: int, classes: int, C: int, least: float, most: Ints | float = np.inf
) -> Iterator[Holders]:
    """C different classes a client at random, given that each class gets from `least` to `most` clients.

    Independent allocations, at most TRIES of them; none at all where WORK draws found none. Drawn freely and kept where
    they fit, but for C M = classes: there every class has exactly one client, and a permutation says which.
    """
    each = clients * C
    block = int(np.clip(BLOCK // max(each, classes), 1, 4096))
    given, left = 0, WORK
    while given < TRIES and left > 0:
        if each == classes:
            chosen = draw.permuted(np.tile(np.arange(classes), (block, 1)), axis=1).reshape(block, clients, C)
            chosen = chosen.transpose(2, 0, 1)
        else:
            chosen = subsets(draw, block * clients, classes, C).reshape(C, block, clients)
        table = np.bincount((chosen + np.arange(block)[:, None] * classes).ravel(), minlength=block * classes)
        table = table.reshape(block, classes)
        for b in np.flatnonzero(((table >= least) & (table <= most)).all(1))[: TRIES - given]:
            order = np.argsort(chosen[:, b].T.ravel(), kind="stable")
            yield Holders(order // C, np.concatenate([[0], np.cumsum(table[b])]))
            given += 1
            left -= 4 * each + PER_CLASS * classes  # what the caller does with it
        left -= block * max(each * C // 4, each, classes)


def check_classes(name: str, clients: int, classes: int, C: int) -> None:
    """Whether C classes a client can be, and can cover all classes."""
    if not 1 <= C <= classes:
        raise BadInput(f"partition: {name} has C={C}; 1 <= C <= {classes} classes is right")
    check_pairs(clients, C, "classes")
    if C * clients < classes:
        raise BadInput(f"clients: {clients} with C={C} cannot cover {classes} classes; C x clients >= classes is right")


def none_found(name: str, clients: int, classes: int, C: int, least: float, scarce: int | None = None) -> BadInput:
    """The line for an allocation that was not found; scarce: samples of the rarest class, where they are a bound."""
    fits = "" if scarce is None else " and at most as many as it has samples"
    crowded = scarce is not None and 2 * C * clients > scarce * classes
    change = "fewer clients or a smaller C" if crowded else "more clients or a larger C"
    return BadInput(
        f"partition: {name}:C={C} found no allocation over {clients} clients that gives each of the {classes} classes "
        f"at least {least:g} clients{fits}; take {change}"
    )
