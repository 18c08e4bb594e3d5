"""Who holds which samples, and the minibatches a leg draws from them."""

from baton.clients.batches import Batches, batches, reached, taken, visit, width
from baton.clients.tables import Clients, build, labels, members, owners, spans

__all__ = [
    "Batches",
    "Clients",
    "batches",
    "build",
    "labels",
    "members",
    "owners",
    "reached",
    "spans",
    "taken",
    "visit",
    "width",
]
