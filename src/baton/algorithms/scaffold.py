"""SCAFFOLD (Karimireddy et al., 2020): control variates take the clients' drift out of their steps."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, towards, weights
from baton.algorithms.shares import Shares, shares, unknown, without_samples
from baton.algorithms.ways import check_of
from baton.errors import BadInput
from baton.lanes import Params, per_lane, zeros
from baton.names import lane
from baton.seam import Cohort, Leg, Local, Now, Reply, Sites, State

LOOK = "look"  # sent, without a number in it, with visits that only look


def scaffold(
    *,
    server_lr: Tensor = lane(1.0, above=0.0),
    weighting: str = "uniform",
    option: int = 2,
    of: str = "parallel",
) -> Algorithm:
    """Each step adds c - c_i; then c_i is the leg's mean direction, c the mean of all c_i (Karimireddy et al., 2020).

    option=1: c_i is the mean of K minibatch gradients at the round's model instead, for which each participant is
    visited once more. of=sequential: a chain with these controls, each client's from where it began its leg.
    weighting=size: both means, of models and of controls, are by samples.
    """
    check_of("scaffold", of, weighting)
    if option not in (1, 2):
        raise BadInput(f"algorithm: scaffold has option={option}; 1 or 2 is right")
    if option == 1 and of == "sequential":
        raise BadInput("algorithm: scaffold has option=1 and of=sequential; the controls of a chain are option 2's")
    move = towards(server_lr)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, c, now = state.model, without_samples(state.server), sites.now
        reply = sites.train(x, order, sent=c)
        mean = average(reply.x, weights(reply, weighting))
        told = reply if option == 2 else sites.train(x, order, sent={**c, LOOK: now.lr[:, None][:, :0]}, still=True)
        if told.even and weighting == "uniform" and option == 2:
            return State(move(x, mean), evenly(x, c, mean, reply, now))
        moved = _moved(told, now)
        share = shares(state.server, order, told, moved, now)
        new = controls(x, c, told, share, now)
        if weighting == "uniform" and option == 2:
            new = where_alike(moved, reply.reach, evenly(x, c, mean, reply, now), new)
        return State(move(x, mean), {**new, **share.samples})

    def chain(state: State, order: Cohort, sites: Sites) -> State:
        x, moved, stays = state.model, zeros(state.server), torch.ones_like(sites.now.lr)
        for client in order:
            start, reply = x, sites.train(x, client, sent=state.server)
            x, each, share = reply.x, *_counts(reply, sites.now)
            stays = stays - share
            for n, leaf in moved.items():
                leaf.addcmul_(start[n] - x[n], per_lane(each, leaf))
        c = {n: leaf.addcmul_(state.server[n], per_lane(stays, leaf)) for n, leaf in moved.items()}
        return State(move(state.model, x), c)

    def first(x: Params, now: Now) -> Params:
        return {**zeros(x), **unknown(weighting, now)}

    local = Local(zeros, shift, direction) if option == 2 else Local(zeros, _shift_kept, _direction_there)
    if of == "sequential":
        return Algorithm(chain, server=first, local=local)
    return Algorithm(round, server=first, local=local, looks=option == 1, once=True)


def shift(kept: Params, sent: Params) -> Params:
    """c - c_i."""
    return {name: torch.sub(sent[name], leaf, out=leaf) for name, leaf in kept.items()}


def direction(kept: Params, sent: Params, leg: Leg) -> Params:  # noqa: ARG001
    """c_i+ = c_i - c + (x - y) / (K lr): what a leg's own gradients came to on the mean."""
    return leg.direction


def _shift_kept(kept: Params, sent: Params) -> Params:
    return {name: sent[name] - leaf for name, leaf in kept.items()}


def _direction_there(kept: Params, sent: Params, leg: Leg) -> Params:
    """Option I: the visit that trains leaves c_i as it is; the one that only looks gives the gradient at x."""
    return leg.direction if LOOK in sent else kept


def evenly(x: Params, c: Params, mean: Params, reply: Reply, now: Now) -> Params:
    """The controls' mean where all legs took as many steps: c + (S/M) ((x - mean) / (K lr) - c).

    Where the learning rate is 0 nothing is learnt.
    """
    share, way = reply.reach.shape[1] / now.clients, reply.reach[:, 0] * now.lr
    each, stays = torch.where(way > 0, share / way, 0.0), 1 - share * (way > 0).to(way.dtype)
    return {
        n: (x[n] - mean[n]).mul_(per_lane(each, leaf)).addcmul_(leaf, per_lane(stays, leaf)) for n, leaf in c.items()
    }


def controls(x: Params, c: Params, reply: Reply, share: Shares, now: Now) -> Params:
    """c + (the sum of p_i (c_i+ - c_i) over the participants), where c_i+ - c_i = (x - y) / (K lr) - c."""
    way = reply.reach * now.lr.unsqueeze(1)  # [L, C]
    each = torch.where(share.each > 0, share.each / way, 0.0)
    keep = torch.ones_like(now.lr) if share.keep is None else share.keep
    total, stays, new = each.sum(1), keep - share.each.sum(1), {}
    for n, leaf in c.items():
        moved = torch.einsum("ls,ls...->l...", -each.to(leaf.dtype), reply.x[n])
        new[n] = moved.addcmul_(per_lane(total, leaf), x[n]).addcmul_(per_lane(stays, leaf), leaf)
    return new


def where_alike(moved: Tensor, reach: Tensor, even: Params, uneven: Params) -> Params:
    """Take `even` in lanes whose legs all came back after as many steps: a lane's bits do not depend on its company."""
    alike = (moved & (reach == reach[:, :1])).all(1)
    return {n: torch.where(per_lane(alike, leaf), leaf, uneven[n]) for n, leaf in even.items()}


def _moved(reply: Reply, now: Now) -> Tensor:
    """Which legs came back, and had a step that moved them [L, C]."""
    moved = reply.reach * now.lr.unsqueeze(1) > 0
    return moved if reply.came is None else moved & reply.came


def _counts(reply: Reply, now: Now) -> tuple[Tensor, Tensor]:
    """Of one client of a chain [L]: 1 / (M K lr), and 1 / M; 0 where it did not come back.

    c + (1/M) (c_i+ - c_i) over all of them, where c_i+ - c_i = (start - end) / (K lr) - c.
    """
    way = reply.reach * now.lr  # [L]
    came = way > 0 if reply.came is None else reply.came & (way > 0)
    return torch.where(came, 1 / way / now.clients, 0.0), came.to(way.dtype) / now.clients
