"""Quantity-based class imbalance (Li et al.): C classes a client, each class in equal parts."""

import numpy as np

from baton.errors import BadInput
from baton.partitions.draws import Ints, classes_of, generator, hand_out
from baton.partitions.holders import allocations, check_classes, none_found


def classes(labels: Ints, clients: int, *, C: int, seed: int = 0) -> Ints:
    """C different classes a client at random, then each class's samples at random, in equal parts.

    Exactly C classes at every client, every class at some client, and parts of a class equal up to one sample.
    """
    found, draw = classes_of(labels), generator(seed, 3)
    kinds = len(found.sizes)
    check_classes("classes", clients, kinds, C)
    if C * clients > len(labels):
        raise BadInput(
            f"clients: {clients} x {C} classes is more than the {len(labels)} training samples; classes:C={C} needs a "
            f"sample of each, so at most {len(labels) // C} clients are right"
        )
    for holders in allocations(draw, clients, kinds, C, 1, found.sizes):
        counts = np.repeat(found.sizes // np.diff(holders.start), np.diff(holders.start))
        for size, part in zip(found.sizes.tolist(), holders.each(), strict=True):
            among = part.stop - part.start
            counts[part.start + draw.permutation(among)[: size % among]] += 1
        return hand_out(draw, found.kind, holders.client, counts)
    raise none_found("classes", clients, kinds, C, 1, int(found.sizes.min()))
