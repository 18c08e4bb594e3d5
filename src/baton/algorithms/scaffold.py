"""SCAFFOLD (Karimireddy et al., 2020), option II: control variates take the clients' drift out of their steps."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, towards, weights
from baton.lanes import Params, per_lane, zeros
from baton.names import lane
from baton.seam import Cohort, Leg, Local, Now, Reply, Sites, State


def scaffold(*, server_lr: Tensor = lane(1.0, above=0.0), weighting: str = "uniform") -> Algorithm:
    """Each local step adds c - c_i; then c_i is the leg's mean direction, and c the mean of all clients' c_i."""
    check_weighting("scaffold", weighting)
    move = towards(server_lr)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, c = state.model, state.server
        reply = sites.train(x, order, sent=c)
        mean = average(reply.x, weights(reply, weighting))
        alike = reply.even and weighting == "uniform"  # the mean direction is that of the mean
        return State(
            move(x, mean), _evenly(x, c, mean, reply, sites.now) if alike else _controls(x, c, reply, sites.now)
        )

    return Algorithm(round, server=lambda x, _now: zeros(x), local=Local(zeros, _shift, _direction))


def _shift(kept: Params, sent: Params) -> Params:
    """c - c_i."""
    return {name: torch.sub(sent[name], leaf, out=leaf) for name, leaf in kept.items()}


def _direction(kept: Params, sent: Params, leg: Leg) -> Params:  # noqa: ARG001
    """c_i+ = c_i - c + (x - y) / (K lr): what a leg's own gradients came to on the mean."""
    return leg.direction


def _evenly(x: Params, c: Params, mean: Params, reply: Reply, now: Now) -> Params:
    """The same where all legs took K steps: c + (S/M) ((x - mean) / (K lr) - c)."""
    share = reply.reach.shape[1] / now.clients
    each = share / (reply.reach[:, 0] * now.lr)
    return {n: (x[n] - mean[n]).mul_(per_lane(each, leaf)).add_(leaf, alpha=1 - share) for n, leaf in c.items()}


def _controls(x: Params, c: Params, reply: Reply, now: Now) -> Params:
    """c + (1/M) sum of c_i+ - c_i over the participants, where c_i+ - c_i = (x - y) / (K lr) - c."""
    way = reply.reach * now.lr.unsqueeze(1)  # [L, C]
    came = way > 0 if reply.came is None else reply.came & (way > 0)
    each, stays = torch.where(came, 1 / way / now.clients, 0.0), 1 - came.sum(1).to(way.dtype) / now.clients
    total, new = each.sum(1), {}
    for n, leaf in c.items():
        moved = torch.einsum("ls,ls...->l...", -each.to(leaf.dtype), reply.x[n])
        new[n] = moved.addcmul_(per_lane(total, leaf), x[n]).addcmul_(per_lane(stays, leaf), leaf)
    return new
