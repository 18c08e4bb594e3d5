"""Who holds which samples, and the minibatches a leg draws from them."""

from baton.clients.batches import Batches, batches, by_the_leg, reached, slots, taken, visit, width
from baton.clients.tables import (
    Clients,
    balanced,
    build,
    labels,
    members,
    owners,
    pooled,
    pooled_leg,
    sizes,
    spans,
    steps,
)

__all__ = [
    "Batches",
    "Clients",
    "balanced",
    "batches",
    "build",
    "by_the_leg",
    "labels",
    "members",
    "owners",
    "pooled",
    "pooled_leg",
    "reached",
    "sizes",
    "slots",
    "spans",
    "steps",
    "taken",
    "visit",
    "width",
]
