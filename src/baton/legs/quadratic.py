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
        hessian, slope, _ = split(_mean(rows, batches.weight))  # [L, K, d, d], [L, K, d]
        if hessian.shape[-1] > 1:
            hessian = (hessian + hessian.mT) / 2
        x = repeated(x, len(batches.lr))
        if not self.clipped:
            return {"x": _affine(x["x"], hessian, slope, batches.lr, lanes.weight_decay)}
        for a, c in zip(hessian.unbind(1), slope.unbind(1), strict=True):
            g = {"x": torch.baddbmm(c.unsqueeze(-1), a, x["x"].unsqueeze(-1)).squeeze(-1)}
            x = sgd(x, g, batches.lr, lanes.clip, lanes.weight_decay)
        return x


def _mean(rows: Tensor, weight: Tensor) -> Tensor:
    """Of the b samples of each step; a step's only sample is its mean."""
    if rows.shape[2] == 1:
        return rows[:, :, 0]
    share = weight / weight.sum(-1, keepdim=True).clamp(min=1)
    return (rows * share.unsqueeze(-1)).sum(2)


def _affine(x: Tensor, hessian: Tensor, slope: Tensor, lr: Tensor, weight_decay: Tensor) -> Tensor:
    """Steps without clipping are x -> M x + b, and one operation each: M = (1 - lr decay) I - lr A, b = -lr c."""
    rate = lr.view(-1, 1, 1)
    keep = (1 - lr * weight_decay).view(-1, 1, 1, 1) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    matrix, shift = keep - rate.unsqueeze(-1) * hessian, -rate * slope  # [L, K, d, d], [L, K, d]
    if x.shape[1] == 1:
        for m, b in zip(matrix.squeeze(-1).unbind(1), shift.unbind(1), strict=True):
            x = torch.addcmul(b, m, x)
        return x
    for m, b in zip(matrix.unbind(1), shift.unbind(1), strict=True):
        x = torch.baddbmm(b.unsqueeze(-1), m, x.unsqueeze(-1)).squeeze(-1)
    return x
