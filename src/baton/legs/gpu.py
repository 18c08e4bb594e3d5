"""The leg on a GPU, by kernels that know the lane axis."""

from collections.abc import Collection
from math import prod

import torch
from torch import Tensor

from baton import rng
from baton.clients import Batches, Clients
from baton.datasets import Dataset, prepared
from baton.datasets.images import Normaliser, crop_and_flip
from baton.lanes import Params
from baton.legs.base import Step
from baton.legs.plain import rates
from baton.nn import Net, cuda, graph

BLOCK_BYTES = 4 << 30  # what one block of samples may take over all lanes while it is evaluated


def build(
    net: Net,
    layers: list[graph.Layer],
    data: Dataset,
    clients: Clients,
    precision: str,
    apart: Collection[str] = (),
) -> "Cuda | None":
    """None where a layer has no such kernel, or there is no Triton.

    apart: of a model in split form, the leaves of one side, where each clips by its own norm.
    """
    kernels = cuda.compile(layers, net.sizes(), tuple(clients.x.shape[1:]), precision, apart)
    return Cuda(kernels, layers, net, data, clients) if kernels else None


class Cuda:
    """Known layers in float32, products at a chosen precision; or all in float64. Whole or in split form."""

    way = "Triton"

    def __init__(
        self, kernels: "cuda.Kernels", layers: list[graph.Layer], net: Net, data: Dataset, clients: Clients
    ) -> None:
        self.kernels, self.net, self.data, self.clients = kernels, net, data, clients
        self.quick = isinstance(data.prepare, Normaliser) and data.augment in (None, crop_and_flip)
        widest = max(prod(layer.shape) for layer in layers)
        numbers = prod(clients.x.shape[1:]) + 2 * widest  # a sample, a layer's input and output
        self.bytes_each = net.dtype.itemsize * numbers

    @property
    def layout(self) -> "cuda.Kernels":
        """How models lie in memory: arenas, and their leaves as views."""
        return self.kernels

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """K steps."""
        start = self.kernels.flat(x)
        return self.kernels.leaves(self._train(start, self._rule(step, start), step, batches))

    def directed(self, x: Params, step: Step, batches: Batches, inverse: Tensor) -> tuple[Params, Params]:
        """K steps, and each leg's mean direction; it is written over the shift, where that has a lane a leg."""
        k, start = self.kernels, self.kernels.flat(x)
        rule = self._rule(step, start)
        end = self._train(start, rule, step, batches)
        return k.leaves(end), k.leaves(k.direction(start, end, rule.shift, inverse))

    def _train(self, start: Tensor, rule: cuda.Rule, step: Step, batches: Batches) -> Tensor:
        """From arena to arena; the first is left as it is."""
        k, legs, flat = self.kernels, len(step.lr), start
        if len(flat) < legs:
            flat = flat.repeat_interleave(legs // len(flat), 0)
        operands, into = k.operands(flat), None  # the first step leaves x as it is, the others write over their own
        by_step = (field.transpose(0, 1).contiguous() for field in (batches.places, batches.key, batches.weight))
        for lr, at, key, weight in zip(rates(step, batches.weight), *by_step, strict=True):
            samples = self._samples(self.clients.x, at, key if self.data.augment else None)
            given = (samples, self.clients.y[at], weight, key, rule._replace(lr=lr))
            flat, operands = into = k.step(flat, operands, *given, into=into)
        return flat

    def _rule(self, step: Step, start: Tensor) -> cuda.Rule:
        """The step with its arenas, made once a leg; start: the arena of x, which no step writes over."""
        pull = shift = momentum = None
        if step.pull is not None:
            pull = (step.pull, start if step.anchor is None else self.kernels.flat(step.anchor))
        if step.shift is not None:
            shift = self.kernels.flat(step.shift)
        if step.momentum is not None:
            momentum = (step.momentum, start.new_zeros(len(step.lr), start.shape[1]))
        return cuda.Rule(step.lr, step.clip, step.weight_decay, pull, shift, momentum)

    def outputs(self, x: Params, pool: Tensor, places: Tensor) -> Tensor:
        """In blocks that fit."""
        flat = self.kernels.flat(x)
        operands = self.kernels.operands(flat)
        size = max(1, BLOCK_BYTES // (self.bytes_each * len(flat)))
        places = places if places.dim() == 2 else places.unsqueeze(0)
        blocks = (self._samples(pool, at, None) for at in torch.split(places, size, 1))  # one at a time in memory
        return torch.cat([self.kernels.logits(flat, operands, block) for block in blocks], 1)

    def _samples(self, pool: Tensor, places: Tensor, key: Tensor | None) -> Tensor:
        """Stored samples at places [L, b] as the kernels take them, augmented where a key [L] is given."""
        prepare = self.data.prepare
        if self.quick and isinstance(prepare, Normaliser):
            return self.kernels.images(pool, places, key, prepare.scale, prepare.shift)
        x = pool[places]
        if key is not None and self.data.augment is not None:
            x = torch.func.vmap(self.data.augment)(x, rng.bits(key, rng.AUGMENT))
        x = prepared(self.data, x.flatten(0, 1), self.net.dtype)
        return self.kernels.channels_last(x.view(*places.shape, *x.shape[1:]))
