"""How legs are trained: the fastest way that there is for a model on a device. All agree up to rounding."""

from collections.abc import Collection

import torch

from baton.clients import Clients
from baton.datasets import Dataset
from baton.datasets.base import cross_entropy
from baton.legs import compiled, gpu
from baton.legs.base import Legs
from baton.legs.plain import Plain
from baton.legs.quadratic import Quadratics
from baton.legs.split import SplitLegs
from baton.models.quadratic import Quadratic
from baton.nn import Net
from baton.nn.cut import Sides
from baton.seam import Split

__all__ = ["Legs", "Plain", "Quadratics", "SplitLegs", "choose"]


def choose(
    net: Net,
    data: Dataset,
    clients: Clients,
    clipped: bool,
    precision: str,
    threads: int,
    form: Split | None = None,
    sides: Sides | None = None,
    elastic: bool = False,
) -> Legs:
    """For this model, these data and the device they are on; clipped: whether any lane clips its gradients.

    elastic: whether steps may be pulled by a force of its own at each parameter, which torch's legs alone do.
    A model with sides is trained in split form and in no other way; a way to train it whole only evaluates it.
    """
    if form is None or sides is None:
        quick = None if elastic else _kernels(net, data, clients, precision, threads)
        return quick or _torch(net, data, clients, clipped, threads)
    found = _split_kernels(net, data, clients, precision, threads, form, sides)
    if found is not None:
        return found
    whole = choose(net, data, clients, clipped, precision, threads)
    return SplitLegs(net, data, clients, form, sides, whole, clipped, threads)


def _torch(net: Net, data: Dataset, clients: Clients, clipped: bool, threads: int) -> Legs:
    kind = Quadratics if type(net.module) is Quadratic else Plain
    return kind(net, data, clients, clipped, threads)


def _kernels(
    net: Net, data: Dataset, clients: Clients, precision: str, threads: int, apart: Collection[str] = ()
) -> Legs | None:
    """Known layers, cross-entropy; float32, on a GPU float64 too, and leaves apart, which clip by their own norm."""
    layers, long = net.layers(), net.dtype == torch.float64
    if layers is None or not _usual(net, data):
        return None
    if net.device.type == "cuda":
        return gpu.build(net, layers, data, clients, "fp64" if long else precision, apart)
    return None if long else compiled.build(net, layers, data, clients, threads)


def _split_kernels(
    net: Net, data: Dataset, clients: Clients, precision: str, threads: int, form: Split, sides: Sides
) -> Legs | None:
    """The same, cut once, and smashed data without noise.

    Its gradient is the whole model's then, and its step too, but for what each side clips by. So a kernel on a GPU may
    lie on both sides of a cut, and only norms are told apart; in C each side has layers of its own.
    """
    if form.noise or sides.head:
        return None
    each = form.clip == "per_side"
    if net.device.type == "cuda":
        return _kernels(net, data, clients, precision, threads, sides.front.names if each else ())
    known = sides.layers(net.sample)
    if known is None or net.dtype != torch.float32 or not _usual(net, data):
        return None
    layers, cut = known
    return compiled.build(net, layers, data, clients, threads, cut, each)


def _usual(net: Net, data: Dataset) -> bool:
    """What all kernels are for; one logit has another loss."""
    return data.loss is cross_entropy and net.dtype in (torch.float32, torch.float64) and net.width() > 1
