"""FedAvgM (Hsu et al., 2019): parallel, with momentum at the server."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, weights
from baton.lanes import per_lane, zeros
from baton.names import lane
from baton.seam import Cohort, Sites, State


def fedavgm(
    *,
    beta: Tensor = lane(0.9, least=0.0, below=1.0),
    server_lr: Tensor = lane(1.0, above=0.0),
    weighting: str = "uniform",
) -> Algorithm:
    """The server keeps v = beta v + (average - x), and moves by server_lr v. beta = 0 is parallel."""
    check_weighting("fedavgm", weighting)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, reply = state.model, sites.train(state.model, order)
        mean = average(reply.x, weights(reply, weighting))
        v = {n: torch.addcmul(mean[n] - leaf, per_lane(beta, leaf), state.server[n]) for n, leaf in x.items()}
        return State({n: torch.addcmul(leaf, per_lane(server_lr, leaf), v[n]) for n, leaf in x.items()}, v)

    return Algorithm(round, server=lambda x, _now: zeros(x))
