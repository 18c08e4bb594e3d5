"""The leg in plain PyTorch: any model, any device. What the faster ways are tested against."""

from collections.abc import Callable

import torch
from torch import Tensor

from baton import rng
from baton.clients import Batches, Clients
from baton.datasets import Dataset, prepared
from baton.lanes import Lanes, Params, norm, per_lane
from baton.legs.base import repeated
from baton.nn import Net, gradients, looped, mapped

Gradient = Callable[[Params, Tensor, Tensor, Tensor, Tensor], Params]

BLOCK_BYTES = 128 << 20  # what one block of samples may take over all lanes
CACHE_BYTES = 16 << 20  # the same where lanes go one after another: what stays close to the core


class Plain:
    """Gradients by autograd, lanes by vmap or one after another."""

    def __init__(self, net: Net, data: Dataset, clients: Clients, clipped: bool = True, threads: int = 1) -> None:
        """clipped: whether any lane's gradients may have to be clipped; threads: for lanes that are looped over."""
        self.net, self.data, self.clients, self.clipped = net, data, clients, clipped
        self.gradient = gradient(net, data, threads)
        self.forward = mapped(self._forward, net, threads)
        sample = prepared(data, clients.x[:1], net.dtype)[0]
        self.bytes_each = (2 * sample.numel() + 2 * net.activations(sample)) * sample.element_size()

    def train(self, x: Params, lanes: Lanes, batches: Batches) -> Params:
        """K steps."""
        x = repeated(x, len(batches.lr))
        for k in range(batches.places.shape[1]):
            at = batches.places[:, k]
            g = self.gradient(x, batches.key[:, k], self.clients.x[at], self.clients.y[at], batches.weight[:, k])
            x = sgd(x, g, batches.lr, lanes.clip if self.clipped else None, lanes.weight_decay)
        return x

    def outputs(self, x: Params, pool: Tensor, places: Tensor) -> Tensor:
        """In blocks that fit."""
        shared = places.dim() == 1
        lanes = len(next(iter(x.values())))
        fits = CACHE_BYTES // self.bytes_each if looped(self.net) else BLOCK_BYTES // (self.bytes_each * lanes)
        return torch.cat([self.forward(x, pool[at], shared) for at in torch.split(places, max(1, fits), -1)], 1)

    def _forward(self, params: Params, samples: Tensor) -> Tensor:
        return self.net.evaluate(params, prepared(self.data, samples, self.net.dtype))


def gradient(net: Net, data: Dataset, threads: int = 1) -> Gradient:
    """Each lane's minibatch gradient: (params, key [L], x [L, b, ...], y [L, b], weight [L, b]) -> Params."""

    def loss(params: Params, key: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        if data.augment is not None:
            x = data.augment(x, rng.bits(key, rng.AUGMENT))
        each = data.loss(net.train(params, key, prepared(data, x, net.dtype)), y)
        return (each * weight).sum() / weight.sum().clamp(min=1)

    return gradients(loss, net, threads)


def sgd(
    x: Params, g: Params, lr: Tensor, clip: Tensor | None, weight_decay: Tensor, size: Tensor | None = None
) -> Params:
    """One step as torch does it: clip_grad_norm_, then SGD's weight decay, then the step. clip None: in no lane.

    size [L]: the norm to clip by, where g is only a part of the gradient.
    """
    if clip is not None:
        scale = torch.where(clip > 0, (clip / ((norm(g) if size is None else size) + 1e-6)).clamp(max=1.0), 1.0)
        g = {name: leaf * per_lane(scale, leaf) for name, leaf in g.items()}
    return {
        name: leaf - per_lane(lr, leaf) * (g[name] + per_lane(weight_decay, leaf) * leaf) for name, leaf in x.items()
    }
