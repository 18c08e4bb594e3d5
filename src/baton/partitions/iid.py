"""Samples dealt out at random, sizes equal up to one."""

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput


def iid(labels: NDArray[np.int64], clients: int, *, seed: int = 0) -> NDArray[np.int64]:
    """labels [N] -> owner [N]."""
    if clients > len(labels):
        raise BadInput(f"clients: {clients} is more than the {len(labels)} training samples; iid needs one sample each")
    owner = np.arange(len(labels), dtype=np.int64) % clients
    return np.random.default_rng([seed, 0]).permutation(owner)
