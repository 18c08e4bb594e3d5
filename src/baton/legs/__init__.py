"""How legs are trained: the fastest way that there is for a model on a device. All agree up to rounding."""

from baton.clients import Clients
from baton.datasets import Dataset
from baton.legs.base import Legs
from baton.legs.plain import Plain
from baton.legs.quadratic import Quadratics
from baton.models.quadratic import Quadratic
from baton.nn import Net

__all__ = ["Legs", "Plain", "Quadratics", "choose"]


def choose(net: Net, data: Dataset, clients: Clients, clipped: bool, precision: str) -> Legs:
    """For this model, these data and the device they are on; clipped: whether any lane clips its gradients."""
    if type(net.module) is Quadratic:
        return Quadratics(net, data, clients, clipped)
    return Plain(net, data, clients, clipped)
