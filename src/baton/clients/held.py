"""Samples that clients hold back from training, to choose by: never the test set's."""

import numpy as np
import torch
from numpy.typing import NDArray

from baton import rng
from baton.errors import BadInput
from baton.partitions import Owner


def held_back(owner: Owner, labels: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Which samples [N] are held back: the same for every seed.

    Clients one after another, their classes one after another, each class in a keyed order: every 1/share-th sample is
    taken. So every client, and every class at it, gives its share to within one sample. A client keeps at least one.
    """
    key = rng.bits(torch.tensor(0), rng.VALIDATION, torch.arange(len(owner))).numpy()
    order = np.lexsort((key, labels, owner))
    order = order[owner[order] >= 0]
    counted = np.floor(share * np.arange(len(order) + 1) + 0.5)
    held = np.zeros(len(owner), bool)
    held[order[np.diff(counted) > 0]] = True
    first = order[np.unique(owner[order], return_index=True)[1]]  # of each client
    left = np.bincount(owner[order], ~held[order], len(first))
    held[first[left[owner[first]] == 0]] = False
    if not held.any():
        what = f"{share:g} of {len(order)} samples at {len(first)} clients"
        raise BadInput(f"validation: {what} holds none back; a larger share, or 0, is right")
    return held
