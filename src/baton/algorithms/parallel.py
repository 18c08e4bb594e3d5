"""Parallel federated learning (PFL, FedAvg): the paper's Algorithm 2."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm, Sites, State
from baton.errors import BadInput


def parallel(*, weighting: str = "uniform", server_lr: float = 1.0) -> Algorithm:
    """All participants start from the same model and their results are averaged.

    weighting=uniform is Algorithm 2's plain mean; size weights each participant by its number of samples, as the
    published runs do. The server moves from x to the average by the factor server_lr.
    """
    if weighting not in ("uniform", "size"):
        raise BadInput(f"algorithm: parallel has weighting={weighting}; 'uniform' or 'size' is right")
    if not 0 < server_lr < float("inf"):
        raise BadInput(f"algorithm: parallel has server_lr={server_lr}; server_lr > 0 is right")

    def round(x: State, order: Tensor, sites: Sites) -> State:
        size = sites.sizes(order)  # [L, S]
        empty = size.sum(1, keepdim=True) == 0  # nobody holds a sample: every leg is the identity, any weights will do
        weight = torch.where(empty, 1, size) if weighting == "size" else torch.ones_like(size)
        trained = sites.train_all(x, order)  # [L, S, ...]
        return {name: _average(x[name], trained[name], weight, server_lr) for name in x}

    return Algorithm(round, parallel=True)


def _average(x: Tensor, trained: Tensor, weight: Tensor, server_lr: float) -> Tensor:
    weight = weight.to(x.dtype)
    share = weight / weight.sum(1, keepdim=True)
    mean = torch.einsum("ls,ls...->l...", share, trained)
    return mean if server_lr == 1.0 else x + server_lr * (mean - x)
