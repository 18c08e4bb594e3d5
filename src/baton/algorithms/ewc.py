"""Elastic weight consolidation (Kirkpatrick et al., 2017; online: Schwarz et al., 2018) along a chain."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.lanes import Params, per_lane, zeros
from baton.names import lane
from baton.seam import Cohort, Sites, State


def ewc(*, strength: Tensor = lane(1.0, least=0.0), keep: Tensor = lane(0.9, least=0.0, most=1.0)) -> Algorithm:
    """A chain whose steps add strength F (y - the model handed over), F a diagonal Fisher (Kirkpatrick et al., 2017).

    After each leg F = keep F + the mean square of K minibatch gradients at its end, for which the client takes K
    gradients more (online EWC, Schwarz et al., 2018). strength=0 is sequential. Its legs are torch's, and slower.
    """
    elastic = bool((strength > 0).any())

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, fisher = state.model, state.server
        for client in order:
            stiff = {n: per_lane(strength, leaf) * leaf for n, leaf in fisher.items()} if elastic else None
            x = sites.train(x, client, stiff=stiff).x
            fisher = _and(fisher, sites.train(x, client, still=True).square or {}, keep)
        return State(x, fisher)

    return Algorithm(round, server=lambda x, _now: zeros(x), elastic=elastic, looks=True)


def _and(fisher: Params, square: Params, keep: Tensor) -> Params:
    return {n: torch.addcmul(square[n], per_lane(keep, leaf), leaf) for n, leaf in fisher.items()}
