"""Each site by itself: whether federating helps at all."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.lanes import Params, where
from baton.seam import Cohort, Now, Sites, State


def alone() -> Algorithm:
    """Every client trains a model of its own when it takes part. Nothing is sent.

    The round's model is the own one of the last participant that came back: one site's among others. All models lie
    in one drawer [L, M, ...], so memory and time grow with M. A client that stands twice in a round's order keeps its
    last leg's model.
    """
    return Algorithm(_round, server=_every, sends=False, personal=_own)


def _every(x: Params, now: Now) -> Params:
    """All clients begin alike: [L, M, ...]."""
    return {name: leaf.unsqueeze(1).repeat(1, now.clients, *[1] * (leaf.dim() - 1)) for name, leaf in x.items()}


def _own(state: State) -> Params:
    return state.server


def _round(state: State, order: Cohort, sites: Sites) -> State:
    index = order.index  # [L, S]
    lane = torch.arange(len(index), device=index.device).unsqueeze(1)
    reply = sites.train({name: leaf[lane, index] for name, leaf in state.server.items()}, order)
    last = _last(index)
    kept = {name: leaf.index_put((lane, index), reply.x[name][lane, last]) for name, leaf in state.server.items()}
    if reply.came is None:
        return State({name: leaf[:, -1].clone() for name, leaf in reply.x.items()}, kept)
    place = torch.where(reply.came, torch.arange(len(order), device=index.device), -1).amax(1)  # [L] the last that came
    found = {name: leaf[lane[:, 0], place] for name, leaf in reply.x.items()}
    return State(where(place >= 0, found, state.model), kept)


def _last(index: Tensor) -> Tensor:
    """Where each client of an order [L, S] stands for the last time: what is written twice is the same."""
    place = torch.arange(index.shape[1], device=index.device)
    same = index.unsqueeze(2) == index.unsqueeze(1)
    return torch.where(same, place, 0).amax(2)
