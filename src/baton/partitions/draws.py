"""What the partitions share: checks, the classes that occur, and samples handed out by count.

Every cost is known before the first draw and bounded: TRIES draws at most, PAIRS entries (client, class) at most, WORK
entries drawn in all. Nothing loops over clients.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput

Ints = NDArray[np.int64]

TRIES = 10_000
PAIRS = 1 << 24  # (client, class) entries of one draw: ten classes at 1,600,000 clients
WORK = 1 << 26  # entries drawn over all tries: seconds
PER_CLASS = 512  # what a class costs beside its entries


class Classes(NamedTuple):
    """The classes that occur among the labels, in their order: a label nobody has is not a class."""

    kind: Ints  # [N] the class of each sample, 0 .. K - 1
    sizes: Ints  # [K] their samples


def classes_of(labels: Ints) -> Classes:
    """labels [N] -> the K classes that occur."""
    check_some(len(labels))
    _, kind, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return Classes(kind.astype(np.int64), sizes.astype(np.int64))


def generator(seed: int, purpose: int) -> np.random.Generator:
    """A stream of its own for each seed and partition."""
    if seed < 0:
        raise BadInput(f"partition: seed={seed}; a whole number from 0 up is right")
    return np.random.default_rng([seed, purpose])


def check_some(samples: int) -> None:
    """Whether there is anything to split."""
    if samples < 1:
        raise BadInput("partition: there are no training samples to split")


def check_samples(samples: int, clients: int, min_samples: int) -> None:
    """Whether the samples can reach."""
    check_some(samples)
    if clients < 1:
        raise BadInput(f"clients: {clients}; 1 or more is right")
    if min_samples < 0:
        raise BadInput(f"partition: min_samples={min_samples}; a whole number from 0 up is right")
    if clients > samples and min_samples:
        raise BadInput(
            f"clients: {clients} is more than the {samples} training samples; take fewer clients, or min_samples=0 to "
            "let clients be without samples"
        )
    if clients * min_samples > samples:
        raise BadInput(
            f"partition: min_samples={min_samples} at {clients} clients is more than the {samples} training samples; "
            f"min_samples <= {samples // clients} is right"
        )


def check_pairs(clients: int, per_client: int, what: str) -> None:
    """Whether one draw is of a size that answers in seconds."""
    if clients * per_client > PAIRS:
        raise BadInput(
            f"clients: {clients} x {per_client} {what} is more than the {PAIRS:,} entries one draw may have; "
            f"at most {PAIRS // per_client} clients are right"
        )


def check_alpha(name: str, alpha: float) -> None:
    """A concentration."""
    if not 0 < alpha < float("inf"):
        raise BadInput(f"partition: {name} has alpha={alpha}; alpha > 0 is right")


def hand_out(draw: np.random.Generator, kind: Ints, client: Ints, counts: Ints) -> Ints:
    """owner [N]: counts[i] random samples to client[i], entries in order of class, each class's counts adding up."""
    order = draw.permutation(len(kind))
    order = order[np.argsort(kind[order], kind="stable")]
    owner = np.empty(len(kind), dtype=np.int64)
    owner[order] = np.repeat(client, counts)
    return owner


def smallest(client: Ints, counts: Ints, clients: int) -> int:
    """Samples at the client that has fewest."""
    return int(np.bincount(client, counts, minlength=clients).min())
