"""Averages of what came back, and the server's step towards them."""

from collections.abc import Callable

import torch
from torch import Tensor

from baton.errors import BadInput
from baton.lanes import Params, per_lane
from baton.seam import Reply


def check_weighting(name: str, weighting: str) -> None:
    """uniform: Algorithm 2's plain mean. size: by samples, as the published runs do."""
    if weighting not in ("uniform", "size"):
        raise BadInput(f"algorithm: {name} has weighting={weighting}; 'uniform' or 'size' is right")


def weights(reply: Reply, weighting: str) -> Tensor:
    """What each leg counts in an average: [L, C]. One that did not come back counts nothing."""
    leaf = next(iter(reply.x.values()))
    each = reply.samples if weighting == "size" else leaf.new_ones(leaf.shape[:2])
    return each if reply.came is None else each * reply.came


def average(x: Params, weight: Tensor) -> Params:
    """Over legs: leaves [L, C, ...] -> [L, ...]. Where none counts, each is as it was given: any weights will do."""
    weight = torch.where(weight.sum(1, keepdim=True) == 0, 1, weight)

    def mean(leaf: Tensor) -> Tensor:
        given = weight.to(leaf.dtype)
        return torch.einsum("ls,ls...->l...", given / given.sum(1, keepdim=True), leaf)

    return {name: mean(leaf) for name, leaf in x.items()}


def towards(server_lr: Tensor) -> Callable[[Params, Params], Params]:
    """The server's step from x to an average, by the factor server_lr [L]; a factor of 1 is the average itself."""
    if bool((server_lr == 1).all()):
        return lambda x, mean: {name: mean[name] for name in x}

    def move(x: Params, mean: Params) -> Params:
        made = {}
        for name, leaf in x.items():
            rate = per_lane(server_lr, leaf).to(leaf.dtype)
            made[name] = torch.where(rate == 1, mean[name], leaf + rate * (mean[name] - leaf))
        return made

    return move
