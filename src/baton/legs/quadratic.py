"""The leg on quadratics: gradients in closed form, a step is a few operations over all lanes."""

import torch
from torch import Tensor
from torch.func import vmap

from baton import rng
from baton.clients import Batches, Clients
from baton.datasets import Dataset
from baton.datasets.quadratic import split
from baton.lanes import Lanes, Params
from baton.legs.base import repeated
from baton.legs.plain import Plain, sgd
from baton.nn import Net


class Quadratics(Plain):
    """Each step's mean Hessian and slope are taken for the whole leg at once."""

    def __init__(self, net: Net, data: Dataset, clients: Clients, clipped: bool, threads: int) -> None:
        super().__init__(net, data, clients, clipped, threads)
        self.augment = data.augment and vmap(vmap(data.augment))

    def train(self, x: Params, lanes: Lanes, batches: Batches) -> Params:
        """K steps."""
        rows = self.clients.x[batches.places]  # [L, K, b, d^2 + d + 1]
        if self.augment:
            rows = self.augment(rows, rng.bits(batches.key, rng.AUGMENT))
        share = batches.weight / batches.weight.sum(-1, keepdim=True).clamp(min=1)
        hessian, slope, _ = split((rows * share.unsqueeze(-1)).sum(2))  # [L, K, d, d], [L, K, d]
        hessian = (hessian + hessian.mT) / 2
        x = repeated(x, len(batches.lr))
        for a, c in zip(hessian.unbind(1), slope.unbind(1), strict=True):
            g = {"x": _product(a, x["x"]) + c}
            x = sgd(x, g, batches.lr, lanes.clip if self.clipped else None, lanes.weight_decay)
        return x


def _product(a: Tensor, x: Tensor) -> Tensor:
    """a [L, d, d] times x [L, d]."""
    return a.squeeze(-1) * x if x.shape[1] == 1 else torch.bmm(a, x.unsqueeze(-1)).squeeze(-1)
