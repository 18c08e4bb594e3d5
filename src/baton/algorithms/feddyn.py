"""FedDyn (Acar et al., 2021): a penalty that each client adapts, so that all local minima move to the global one."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, weights
from baton.lanes import Params, per_lane, per_leg, zeros
from baton.names import lane
from baton.seam import Cohort, Leg, Local, Sites, State


def feddyn(*, alpha: Tensor = lane(0.1, above=0.0)) -> Algorithm:
    """Each step adds alpha (y - x) - h_i; then h_i -= alpha (y - x), x = mean - h / alpha (Acar et al., 2021).

    h is the mean of all clients' h_i. The first round is fedprox:mu=alpha with server_lr = 1 + S/M.
    """

    def begin(kept: Params, sent: Params) -> Params:  # noqa: ARG001
        return {n: torch.neg(leaf, out=leaf) for n, leaf in kept.items()}

    def end(kept: Params, sent: Params, leg: Leg) -> Params:  # noqa: ARG001
        """h_i is written over by now: a leg's direction is (x - y) / (lr reach) + h_i."""
        way = leg.reach * leg.lr  # [L, C]
        by = torch.where(way > 0, 1 / way, 0.0) - alpha.to(way).unsqueeze(1)
        new = {}
        for n, leaf in leg.direction.items():
            far = leg.end[n] - leg.start[n]
            new[n] = torch.addcmul(leaf, far, per_leg(by, far))
        return new

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, reply = state.model, sites.train(state.model, order, pull=alpha)
        weight = weights(reply, "uniform")
        share = weight.sum(1) / sites.now.clients  # of all clients, those that came back
        mean, h, new = average(reply.x, weight), Params(), Params()
        for n, leaf in x.items():
            way, force = mean[n] - leaf, per_lane(alpha, leaf)
            h[n] = state.server[n] - force * per_lane(share, leaf) * way
            new[n] = mean[n] - h[n] / force
        return State(new, h)

    return Algorithm(round, server=lambda x, _now: zeros(x), local=Local(zeros, begin, end))
