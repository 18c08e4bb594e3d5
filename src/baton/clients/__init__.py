"""Who holds which samples, and the minibatches a leg draws from them."""

from baton.clients.tables import Batches, Clients, batches, build, members, owners, spans, taken, width

__all__ = ["Batches", "Clients", "batches", "build", "members", "owners", "spans", "taken", "width"]
