"""The leg in plain PyTorch: any model, any device. What the faster ways are tested against."""

from collections.abc import Callable

import torch
from torch import Tensor

from baton import rng
from baton.clients import Batches, Clients
from baton.datasets import Dataset, prepared
from baton.lanes import Params, norm, per_lane, zeros
from baton.legs.base import Step, repeated
from baton.nn import Net, gradients, looped, mapped

Gradient = Callable[[Params, Tensor, Tensor, Tensor, Tensor], Params]

BLOCK_BYTES = 128 << 20  # what one block of samples may take over all lanes
CACHE_BYTES = 16 << 20  # the same where lanes go one after another: what stays close to the core


class Plain:
    """Gradients by autograd, lanes by vmap or one after another."""

    way = "PyTorch"

    def __init__(self, net: Net, data: Dataset, clients: Clients, clipped: bool = True, threads: int = 1) -> None:
        """clipped: whether any lane's gradients may have to be clipped; threads: for lanes that are looped over."""
        self.net, self.data, self.clients, self.clipped = net, data, clients, clipped
        self.gradient = gradient(net, data, threads)
        self.forward = mapped(self._forward, net, threads)
        sample = prepared(data, clients.x[:1], net.dtype)[0]
        self.bytes_each = (2 * sample.numel() + 2 * net.activations(sample)) * sample.element_size()

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """K steps."""
        x = repeated(x, len(step.lr))
        step, velocity = begun(step, x), None
        for k, lr in enumerate(rates(step, batches.weight)):
            at = batches.places[:, k]
            g = self.gradient(x, batches.key[:, k], self.clients.x[at], self.clients.y[at], batches.weight[:, k])
            x, velocity = sgd(x, g, step._replace(lr=lr), norm(g) if self.clipped else None, velocity)
        return x

    def still(self, x: Params, step: Step, batches: Batches) -> tuple[Params, Params]:
        """K gradients at x: (x - lr (their sum), their mean square)."""
        x = repeated(x, len(step.lr))
        step, live = begun(step, x), (batches.weight.sum(2) > 0).to(step.lr.dtype)  # [N, K]
        total, square = zeros(x), zeros(x)
        for k, taken in enumerate(live.unbind(1)):
            at = batches.places[:, k]
            g = self.gradient(x, batches.key[:, k], self.clients.x[at], self.clients.y[at], batches.weight[:, k])
            d = added(x, g, step, norm(g) if self.clipped else None)
            for n, leaf in d.items():
                total[n].addcmul_(leaf, per_lane(taken, leaf))
                square[n].addcmul_(leaf, leaf * per_lane(taken, leaf))
        count = live.sum(1).clamp(min=1)
        mean = {n: leaf.div_(per_lane(count, leaf)) for n, leaf in square.items()}
        return {n: leaf - per_lane(step.lr, leaf) * total[n] for n, leaf in x.items()}, mean

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


def begun(step: Step, x: Params) -> Step:
    """The step of legs that start at x [N, ...]: anchor and shift, where they are used, a lane for each."""
    count, pulled = len(step.lr), step.pull is not None or step.stiff is not None
    anchor = repeated(x if step.anchor is None else step.anchor, count) if pulled else None
    shift, stiff = (None if given is None else repeated(given, count) for given in (step.shift, step.stiff))
    return step._replace(anchor=anchor, shift=shift, stiff=stiff)


def rates(step: Step, weight: Tensor) -> Tensor:
    """The learning rate of each of the K steps [K, N]: 0 where a batch of weight [N, K, b] is empty, and not taken."""
    if not step.ragged:
        return step.lr.expand(weight.shape[1], -1)
    return torch.where(weight.sum(2) > 0, step.lr.unsqueeze(1), 0.0).T.contiguous()


def sgd(
    x: Params, g: Params, step: Step, size: Tensor | None = None, velocity: Params | None = None
) -> tuple[Params, Params | None]:
    """(x, velocity) after one step as torch does it: clip_grad_norm_, then SGD with what step adds to the gradient.

    size [N]: the norm to clip by; None: nothing is clipped. velocity None: 0, or there is no momentum.
    """
    new, kept = Params(), Params()
    for name, d in added(x, g, step, size).items():
        if step.momentum is not None:
            kept[name] = d if velocity is None else per_lane(step.momentum, d) * velocity[name] + d
        new[name] = x[name] - per_lane(step.lr, d) * kept.get(name, d)
    return new, kept or None


def added(x: Params, g: Params, step: Step, size: Tensor | None) -> Params:
    """The clipped gradient and what the step adds to it."""
    scale = None
    if size is not None:
        scale = torch.where(step.clip > 0, (step.clip / (size + 1e-6)).clamp(max=1.0), 1.0)
    made = Params()
    for name, leaf in x.items():
        d = g[name] if scale is None else g[name] * per_lane(scale, leaf)
        d = d + per_lane(step.weight_decay, leaf) * leaf
        if step.pull is not None and step.anchor is not None:
            d = d + per_lane(step.pull, leaf) * (leaf - step.anchor[name])
        if step.stiff is not None and step.anchor is not None:
            d = d + step.stiff[name] * (leaf - step.anchor[name])
        if step.shift is not None:
            d = d + step.shift[name]
        made[name] = d
    return made
