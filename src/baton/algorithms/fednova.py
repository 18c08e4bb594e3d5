"""FedNova (Wang et al., 2020): an average of directions, so that more local steps do not weigh more."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, towards, weights
from baton.lanes import Params, per_lane
from baton.names import lane
from baton.seam import Cohort, Reply, Sites, State


def fednova(*, weighting: str = "uniform", server_lr: Tensor = lane(1.0, above=0.0)) -> Algorithm:
    """x - (sum of p_i a_i) (sum of p_i (x - y_i) / a_i), a_i being what tau_i steps reach (Wang et al., 2020).

    Where all that count took as many steps it is parallel, to the bit. With momentum a_i counts what it adds.
    """
    check_weighting("fednova", weighting)
    move = towards(server_lr)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        reply = sites.train(state.model, order)
        weight = weights(reply, weighting)
        if reply.even:
            return State(move(state.model, average(reply.x, weight)))
        return State(move(state.model, _normalised(state.model, reply, weight)))

    return Algorithm(round)


def _normalised(x: Params, reply: Reply, weight: Tensor) -> Params:
    """Where the server's step would end: a leg without steps counts nothing."""
    reach = reply.reach
    share = weight.to(reach.dtype) * (reach > 0)
    share = share / share.sum(1, keepdim=True).clamp(min=torch.finfo(reach.dtype).tiny)
    each = (share * reach).sum(1, keepdim=True) * torch.where(reach > 0, share / reach, 0.0)  # [L, C]
    most = reach.amax(1, keepdim=True)
    alike = ((reach == most) | (share == 0)).all(1) & (share > 0).any(1)  # [L]: then it is their mean, and no rounding
    each = torch.where(alike.unsqueeze(1), share, each)
    total, made = torch.where(alike, 1.0, each.sum(1)), Params()
    for n, leaf in x.items():
        ends = torch.einsum("ls,ls...->l...", each.to(leaf.dtype), reply.x[n])
        made[n] = ends + per_lane(1 - total, leaf).to(leaf.dtype) * leaf
    return made
