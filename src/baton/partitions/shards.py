"""Shards (McMahan et al.): samples sorted by label, cut into equal shards, n shards a client."""

import numpy as np

from baton.errors import BadInput
from baton.partitions.draws import Ints, check_pairs, check_samples, generator


def shards(labels: Ints, clients: int, *, n: int, min_samples: int = 1, seed: int = 0) -> Ints:
    """By label into n M shards whose sizes are equal up to one, dealt out at random, n to each client."""
    if n < 1:
        raise BadInput(f"partition: shards has n={n}; 1 or more shards a client is right")
    samples, count = len(labels), n * clients
    check_samples(samples, clients, min_samples)
    check_pairs(clients, n, "shards")
    if n * (samples // count) < min_samples:
        raise BadInput(
            f"partition: shards:n={n} cuts {samples} samples into {count} shards, so that a client may have only "
            f"{n * (samples // count)} samples, and min_samples={min_samples}; take a smaller n, fewer clients or a "
            "smaller min_samples"
        )
    owner_of = generator(seed, 4).permutation(np.repeat(np.arange(clients), n))  # [n M]
    owner = np.empty(samples, dtype=np.int64)
    owner[np.argsort(labels, kind="stable")] = owner_of[np.arange(samples) * count // samples]
    return owner
