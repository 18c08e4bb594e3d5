"""The leg on quadratics: gradients in closed form, a step is a few operations over all lanes."""

import torch
from torch import Tensor
from torch.func import vmap

from baton import rng
from baton.clients import Batches, Clients
from baton.datasets import Dataset
from baton.datasets.quadratic import split
from baton.lanes import Params, norm
from baton.legs.base import Step, repeated
from baton.legs.plain import Plain, begun, rates, sgd
from baton.nn import Net


class Quadratics(Plain):
    """Each step's mean Hessian and slope are taken for the whole leg at once."""

    way = "closed form"

    def __init__(self, net: Net, data: Dataset, clients: Clients, clipped: bool, threads: int) -> None:
        super().__init__(net, data, clients, clipped, threads)
        self.augment = data.augment and vmap(vmap(data.augment))

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """K steps."""
        rows = self.clients.x[batches.places]  # [L, K, b, d^2 + d + 1]
        if self.augment:
            rows = self.augment(rows, rng.bits(batches.key, rng.AUGMENT))
        hessian, slope, _ = split(_mean(rows, batches.weight))  # [L, K, d, d], [L, K, d]
        if hessian.shape[-1] > 1:
            hessian = (hessian + hessian.mT) / 2
        x = repeated(x, len(step.lr))
        step, velocity, lr = begun(step, x), None, rates(step, batches.weight)
        if not self.clipped and step.stiff is None:
            return {"x": _affine(x["x"], hessian, slope, lr if step.ragged else lr[:1], step)}
        for a, c, rate in zip(hessian.unbind(1), slope.unbind(1), lr, strict=True):
            g = {"x": torch.baddbmm(c.unsqueeze(-1), a, x["x"].unsqueeze(-1)).squeeze(-1)}
            x, velocity = sgd(x, g, step._replace(lr=rate), norm(g) if self.clipped else None, velocity)
        return x


def _mean(rows: Tensor, weight: Tensor) -> Tensor:
    """Of the b samples of each step; a step's only sample is its mean."""
    if rows.shape[2] == 1:
        return rows[:, :, 0]
    share = weight / weight.sum(-1, keepdim=True).clamp(min=1)
    return (rows * share.unsqueeze(-1)).sum(2)


def _affine(x: Tensor, hessian: Tensor, slope: Tensor, lr: Tensor, step: Step) -> Tensor:
    """Steps without clipping are x -> M x + b, and one operation each; lr [K or 1, N].

    M = (1 - lr (decay + pull)) I - lr A, b = -lr (c + shift - pull anchor). Momentum adds m (x - the x before).
    """
    decay = step.weight_decay
    if step.pull is not None and step.anchor is not None:
        decay = decay + step.pull
        slope = slope - (step.pull.unsqueeze(1) * step.anchor["x"]).unsqueeze(1)
    if step.shift is not None:
        slope = slope + step.shift["x"].unsqueeze(1)
    rate = lr.T.unsqueeze(-1)  # [N, K or 1, 1]
    one = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    keep = (1 - rate * decay.view(-1, 1, 1)).unsqueeze(-1) * one
    matrix, shift = keep - rate.unsqueeze(-1) * hessian, -rate * slope  # [N, K, d, d], [N, K, d]
    if step.momentum is None:
        for m, b in zip(matrix.unbind(1), shift.unbind(1), strict=True):
            x = _apply(m, b, x)
        return x
    again = torch.where(rate > 0, step.momentum.view(-1, 1, 1), 0.0)  # what takes no step stays where it is
    matrix, again, before = matrix + again.unsqueeze(-1) * one, again.expand(-1, slope.shape[1], -1), x
    for m, b, share in zip(matrix.unbind(1), shift.unbind(1), again.unbind(1), strict=True):
        x, before = _apply(m, torch.addcmul(b, share, before, value=-1), x), x
    return x


def _apply(m: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """m x + b in each lane."""
    if x.shape[1] == 1:
        return torch.addcmul(b, m.squeeze(-1), x)
    return torch.baddbmm(b.unsqueeze(-1), m, x.unsqueeze(-1)).squeeze(-1)
