"""Samples dealt out at random, sizes equal up to one."""

import numpy as np

from baton.partitions.draws import Ints, check_samples, generator


def iid(labels: Ints, clients: int, *, min_samples: int = 1, seed: int = 0) -> Ints:
    """Dealt out at random, sizes equal up to one."""
    check_samples(len(labels), clients, min_samples)
    return generator(seed, 0).permutation(np.arange(len(labels), dtype=np.int64) % clients)
