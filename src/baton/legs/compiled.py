"""The leg in C, on a CPU: all steps of all lanes in one call, lanes over cores."""

import torch
from torch import Tensor
from torch.func import vmap

from baton import rng
from baton.caches import cache
from baton.clients import Batches, Clients
from baton.datasets import Dataset
from baton.datasets.images import Normaliser
from baton.lanes import Params
from baton.legs.base import Step, measured
from baton.nn import Net, graph, native

AUGMENTED = 2048  # samples that are augmented at once


def build(
    net: Net,
    layers: list[graph.Layer],
    data: Dataset,
    clients: Clients,
    threads: int,
    cut: int = 0,
    apart: bool = False,
) -> "Native | None":
    """None where there is no such kernel, or no compiler.

    cut: of a model in split form, the layers on the client's side; apart: each side clips by its own norm.
    """
    bytes_ = clients.x.dtype == torch.uint8
    if bytes_ and not isinstance(data.prepare, Normaliser):
        return None
    if not bytes_ and data.prepare is not None:
        return None
    pixels = native.Pixels(data.prepare.scale, data.prepare.shift) if isinstance(data.prepare, Normaliser) else None
    sizes = net.sizes()
    kernels = native.compile(layers, sizes, tuple(clients.x.shape[1:]), pixels, cut, apart, cache() / "native")
    return Native(kernels, list(sizes), data, clients, threads) if kernels else None


class Native:
    """Known chains of layers in float32, whole or in split form."""

    way = "C"

    def __init__(
        self, kernels: native.Kernels, names: list[str], data: Dataset, clients: Clients, threads: int
    ) -> None:
        """names: of the parameters, in the kernels' order."""
        self.kernels, self.names, self.clients, self.threads = kernels, names, clients, threads
        self.augment = data.augment and vmap(vmap(data.augment))

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """K steps, in as many calls as augmented samples need memory."""
        x = self._own(x)
        if not self.augment:
            return self._steps(x, step, batches, self.clients.x, self.clients.y)
        legs = len(batches.places)
        # what a leg has from its beginning on, over all calls
        step = step._replace(anchor=x) if step.anchor is None else step
        velocity = (
            None if step.momentum is None else {n: leaf.new_zeros(legs, *leaf.shape[1:]) for n, leaf in x.items()}
        )
        at_once = max(1, AUGMENTED // batches.places[:, 0].numel())  # steps
        for k in range(0, batches.places.shape[1], at_once):
            places, weight, key = (field[:, k : k + at_once] for field in batches)
            pool = self.augment(self.clients.x[places], rng.bits(key, rng.AUGMENT)).flatten(0, 2)
            own = Batches(torch.arange(len(pool)).view(places.shape), weight, key)
            x = self._steps(x, step, own, pool, self.clients.y[places].flatten(), velocity)
        return x

    def directed(self, x: Params, step: Step, batches: Batches, inverse: Tensor) -> tuple[Params, Params]:
        """K steps, and each leg's mean direction; it is written over the shift, where that has a lane a leg."""
        legs = len(batches.places)
        if self.augment:
            return measured(self, x, step, batches, inverse)
        shift = step.shift and self._own(step.shift)
        kept = shift and all(len(leaf) == legs and leaf.is_contiguous() for leaf in shift.values())
        told = shift if shift and kept else {n: x[n].new_empty(legs, *x[n].shape[1:]) for n in self.names}
        given = batches, self.clients.x, self.clients.y
        return self._steps(self._own(x), step, *given, inverse=inverse, direction=told), told

    def still(self, x: Params, step: Step, batches: Batches) -> tuple[Params, Params] | None:
        """K gradients at x: (x - lr (their sum), their mean square), in one call; None where samples are augmented."""
        if self.augment:
            return None
        square = {n: x[n].new_empty(len(batches.places), *x[n].shape[1:]) for n in self.names}
        given = batches, self.clients.x, self.clients.y
        return self._steps(self._own(x), step._replace(momentum=None), *given, square=square), square

    def _steps(
        self,
        x: Params,
        step: Step,
        batches: Batches,
        pool: Tensor,
        labels: Tensor,
        velocity: Params | None = None,
        inverse: Tensor | None = None,
        direction: Params | None = None,
        square: Params | None = None,
    ) -> Params:
        return self.kernels.steps(
            x,
            *(step.lr, step.clip, step.weight_decay, pool, labels, *batches, self.threads),
            momentum=step.momentum,
            pull=step.pull,
            anchor=step.anchor and self._own(step.anchor),
            shift=step.shift and self._own(step.shift),
            velocity=velocity,
            inverse=inverse,
            direction=direction,
            square=square,
        )

    def _own(self, x: Params) -> Params:
        """The leaves in the kernels' order."""
        return {name: x[name] for name in self.names}

    def outputs(self, x: Params, pool: Tensor, places: Tensor) -> Tensor:
        """All lanes in one call."""
        return self.kernels.logits(self._own(x), pool, places, self.threads)
