"""Distribution-based class imbalance (Yurochkin et al.): p_c ~ Dir(alpha 1) for each class c."""

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput
from baton.partitions.draws import (
    PER_CLASS,
    TRIES,
    WORK,
    Ints,
    check_alpha,
    check_samples,
    classes_of,
    generator,
    hand_out,
    smallest,
)
from baton.partitions.holders import Holders, everyone


def dirichlet(labels: Ints, clients: int, *, alpha: float, min_samples: int = 1, seed: int = 0) -> Ints:
    """Each class cut among all clients in Dirichlet proportions; drawn again until all have min_samples."""
    check_alpha("dirichlet", alpha)
    check_samples(len(labels), clients, min_samples)
    found, draw = classes_of(labels), generator(seed, 1)
    holders = everyone(clients, len(found.sizes))
    tries = min(TRIES, max(1, WORK // (len(holders.client) + PER_CLASS * len(found.sizes))))
    fewest = 0
    for _ in range(tries):
        counts = cut(draw, alpha, found.sizes, holders)
        fewest = max(fewest, size := smallest(holders.client, counts, clients))
        if size >= min_samples:
            return hand_out(draw, found.kind, holders.client, counts)
    raise too_few(f"dirichlet:alpha={alpha:g}", clients, fewest, min_samples, tries)


def cut(draw: np.random.Generator, alpha: float, sizes: Ints, holders: Holders, first: int = 0) -> Ints:
    """Samples each holder takes of each class, p_c ~ Dir(alpha 1) over its holders, after `first` for everyone."""
    counts = np.empty(len(holders.client), dtype=np.int64)
    for size, part in zip(sizes.tolist(), holders.each(), strict=True):
        rest = size - first * (part.stop - part.start)
        ends = np.rint(np.cumsum(shares(draw, alpha, part.stop - part.start)) * rest).astype(np.int64)
        ends[-1] = rest
        counts[part] = np.diff(ends, prepend=0) + first
    return counts


def shares(draw: np.random.Generator, alpha: float, count: int) -> NDArray[np.float64]:
    """Dir(alpha 1) over `count` holders: gamma draws over their sum.

    Where alpha is so small that all of them underflow, one holder takes all: what Dir(alpha 1) tends to.
    """
    gamma = draw.standard_gamma(alpha, count) / max(alpha, 1.0)
    total = gamma.sum()
    if total == 0:
        gamma[draw.integers(count)] = total = 1.0
    share: NDArray[np.float64] = gamma / total
    return share


def too_few(what: str, clients: int, fewest: int, min_samples: int, tries: int) -> BadInput:
    """The line for draws that left some client short every time."""
    return BadInput(
        f"partition: the best of {tries} draws of {what} over {clients} clients leaves one with {fewest} samples, and "
        f"min_samples={min_samples}; take a larger alpha, fewer clients or a smaller min_samples"
    )
