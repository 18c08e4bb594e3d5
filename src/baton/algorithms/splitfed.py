"""SplitFed: split legs from one model, averaged (the paper's appendix on split learning; Thapa et al., 2022)."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm, Sites, State
from baton.algorithms.parallel import average, shares
from baton.algorithms.split import checked
from baton.errors import BadInput
from baton.names import Layer


def splitfed(
    *,
    cut: Layer,
    version: int = 1,
    head: Layer | None = None,
    weighting: str = "uniform",
    clip: str = "joint",
    smash_noise: float = 0.0,
    passes: int = 0,
) -> Algorithm:
    """Version 1: a server side for each participant. Version 2: one server side, trained client after client."""
    if version not in (1, 2):
        raise BadInput(f"algorithm: splitfed has version={version}; 1 or 2 is right")
    if weighting not in ("uniform", "size"):
        raise BadInput(f"algorithm: splitfed has weighting={weighting}; 'uniform' or 'size' is right")

    def first(x: State, order: Tensor, sites: Sites) -> State:
        client, server = sites.sides(sites.train_all(x, order))  # [L, S, ...]
        weight = shares(order, sites, weighting)
        made = average(client, weight) | average(server, weight)  # the fed server's work, and the main server's
        return {name: made[name] for name in x}

    def second(x: State, order: Tensor, sites: Sites) -> State:
        start, server = sites.sides(x)
        trained = []
        for client in order.unbind(1):
            own, server = sites.sides(sites.train(start | server, client))
            trained.append(own)
        every = {name: torch.stack([own[name] for own in trained], 1) for name in start}  # [L, S, ...]
        made = average(every, shares(order, sites, weighting)) | server
        return {name: made[name] for name in x}

    form = checked("splitfed", cut, head, clip, smash_noise, passes)
    return Algorithm(first if version == 1 else second, parallel=version == 1, relay="average", split=form)
