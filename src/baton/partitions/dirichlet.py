"""Distribution-based class imbalance (Yurochkin et al.): p_c ~ Dir(alpha 1) for each class c."""

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput

TRIES = 200


def dirichlet(
    labels: NDArray[np.int64], clients: int, *, alpha: float, min_samples: int = 1, seed: int = 0
) -> NDArray[np.int64]:
    """Each class is cut among all clients in Dirichlet proportions; drawn again until all have min_samples."""
    if not 0 < alpha < float("inf"):
        raise BadInput(f"partition: dirichlet has alpha={alpha}; alpha > 0 is right")
    if clients * min_samples > len(labels):
        raise BadInput(f"clients: {clients} x {min_samples} samples is more than the {len(labels)} training samples")
    generator = np.random.default_rng([seed, 1])
    everyone = np.ones((clients, 1), dtype=bool)
    fewest = 0
    for _ in range(TRIES):
        owner = deal(generator, labels, np.broadcast_to(everyone, (clients, int(labels.max()) + 1)), alpha)
        smallest = int(np.bincount(owner, minlength=clients).min())
        if smallest >= min_samples:
            return owner
        fewest = max(fewest, smallest)
    raise BadInput(
        f"partition: dirichlet:alpha={alpha:g} left a client with {fewest} < min_samples={min_samples} samples in "
        f"{TRIES} draws over {clients} clients; take a larger alpha, fewer clients or a smaller min_samples"
    )


def deal(
    generator: np.random.Generator, labels: NDArray[np.int64], holds: NDArray[np.bool_], alpha: float
) -> NDArray[np.int64]:
    """Each class c dealt to the clients with holds[m, c] in proportions p_c ~ Dir(alpha q_c): owner [N]."""
    owner = np.full(len(labels), -1, dtype=np.int64)
    for c in range(holds.shape[1]):
        members = generator.permutation(np.flatnonzero(labels == c))
        holders = np.flatnonzero(holds[:, c])
        if len(holders) and len(members):
            ends = np.rint(np.cumsum(proportions(generator, alpha, len(holders))) * len(members)).astype(np.int64)
            owner[members] = holders[
                np.searchsorted(ends, np.arange(len(members)), side="right").clip(max=len(holders) - 1)
            ]
    return owner


def proportions(generator: np.random.Generator, alpha: float, count: int) -> NDArray[np.float64]:
    """Dir(alpha 1) over `count` holders; one holder takes all if every gamma draw underflows."""
    gamma = generator.standard_gamma(alpha, count)
    if gamma.sum() == 0:
        gamma[generator.integers(count)] = 1.0
    share: NDArray[np.float64] = gamma / gamma.sum()
    return share
