"""Parallel federated learning (PFL, FedAvg): the paper's Algorithm 2."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm, Sites, State
from baton.errors import BadInput
from baton.lanes import Params


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
        mean = average(sites.train_all(x, order), shares(order, sites, weighting))
        if server_lr == 1.0:
            return {name: mean[name] for name in x}
        return {name: leaf + server_lr * (mean[name] - leaf) for name, leaf in x.items()}

    return Algorithm(round, parallel=True)


def shares(order: Tensor, sites: Sites, weighting: str) -> Tensor:
    """What each participant counts in the average: [L, S], whole numbers."""
    size = sites.sizes(order)  # [L, S]
    empty = size.sum(1, keepdim=True) == 0  # nobody holds a sample: every leg is the identity, any weights will do
    return torch.where(empty, 1, size) if weighting == "size" else torch.ones_like(size)


def average(trained: Params, weight: Tensor) -> Params:
    """Over participants: leaves [L, S, ...] -> [L, ...]."""

    def mean(leaf: Tensor) -> Tensor:
        given = weight.to(leaf.dtype)
        return torch.einsum("ls,ls...->l...", given / given.sum(1, keepdim=True), leaf)

    return {name: mean(leaf) for name, leaf in trained.items()}
