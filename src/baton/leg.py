"""The leg: one client's K local steps, over lanes."""

from collections.abc import Callable

import torch
from torch import Tensor

from baton import rng
from baton.clients import Batches, Clients
from baton.datasets import Dataset, prepared
from baton.lanes import Lanes, Params, norm, per_lane
from baton.nn import Net, gradients

Gradient = Callable[[Params, Tensor, Tensor, Tensor, Tensor], Params]


def gradient(net: Net, data: Dataset) -> Gradient:
    """Each lane's minibatch gradient: (params, key [L], x [L, b, ...], y [L, b], weight [L, b]) -> Params."""

    def loss(params: Params, key: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        if data.augment is not None:
            x = data.augment(x, rng.bits(key, rng.AUGMENT))
        each = data.loss(net.train(params, key, prepared(data, x, net.dtype)), y)
        return (each * weight).sum() / weight.sum().clamp(min=1)

    return gradients(loss, net)


def sgd(x: Params, g: Params, lr: Tensor, clip: Tensor, weight_decay: Tensor) -> Params:
    """One step as torch does it: clip_grad_norm_, then SGD's weight decay, then the step."""
    length = norm(g)
    scale = torch.where(clip > 0, (clip / (length + 1e-6)).clamp(max=1.0), 1.0)
    return {
        name: leaf - per_lane(lr, leaf) * (g[name] * per_lane(scale, leaf) + per_lane(weight_decay, leaf) * leaf)
        for name, leaf in x.items()
    }


def leg(grad_of: Gradient, clients: Clients, lanes: Lanes, batches: Batches, x: Params) -> Params:
    """x after K steps. A client without samples hands the model on unchanged."""
    lr = torch.where(batches.held > 0, lanes.lr, 0.0)
    for k in range(batches.places.shape[1]):
        at = batches.places[:, k]
        g = grad_of(x, batches.key[:, k], clients.x[at], clients.y[at], batches.weight[:, k])
        x = sgd(x, g, lr, lanes.clip, lanes.weight_decay)
    return x
