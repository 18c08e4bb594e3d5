"""SplitFed: split legs from one model, averaged (the paper's appendix on split learning; Thapa et al., 2022)."""

import torch

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, weights
from baton.algorithms.split import checked
from baton.errors import BadInput
from baton.names import LayerName
from baton.seam import Cohort, Reply, Sites, State


def splitfed(
    *,
    cut: LayerName,
    version: int = 1,
    head: LayerName | None = None,
    weighting: str = "uniform",
    clip: str = "joint",
    smash_noise: float = 0.0,
    passes: int = 0,
) -> Algorithm:
    """1: a server side for each participant; 2: one, trained client after client (Thapa et al., 2022)."""
    if version not in (1, 2):
        raise BadInput(f"algorithm: splitfed has version={version}; 1 or 2 is right")
    check_weighting("splitfed", weighting)

    def first(state: State, order: Cohort, sites: Sites) -> State:
        reply = sites.train(state.model, order)
        client, server = sites.sides(reply.x)  # [L, S, ...]
        weight = weights(reply, weighting)
        made = average(client, weight) | average(server, weight)  # the fed server's work, and the main server's
        return State({name: made[name] for name in state.model})

    def second(state: State, order: Cohort, sites: Sites) -> State:
        start, server = sites.sides(state.model)
        replies = []
        for client in order:
            replies.append(sites.train(start | server, client))
            server = sites.sides(replies[-1].x)[1]
        every = {name: torch.stack([reply.x[name] for reply in replies], 1) for name in start}  # [L, S, ...]
        weight = torch.stack([_alone(reply, weighting) for reply in replies], 1)
        made = average(every, weight) | server
        return State({name: made[name] for name in state.model})

    form = checked("splitfed", cut, head, clip, smash_noise, passes)
    return Algorithm(first if version == 1 else second, split=form)


def _alone(reply: Reply, weighting: str) -> torch.Tensor:
    """What one leg a lane counts: [L]."""
    each = reply.samples if weighting == "size" else torch.ones_like(reply.samples)
    return each if reply.came is None else each * reply.came
