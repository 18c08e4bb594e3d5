"""FedProx (Li et al., 2020): parallel, with a pull back to the model that the leg began with."""

from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, weights
from baton.names import lane
from baton.seam import Cohort, Sites, State


def fedprox(*, mu: Tensor = lane(0.01, least=0.0), weighting: str = "uniform") -> Algorithm:
    """Each local step adds mu (x - the round's model); results are averaged (Li et al., 2020). mu = 0 is parallel."""
    check_weighting("fedprox", weighting)
    pull = mu if bool((mu > 0).any()) else None

    def round(state: State, order: Cohort, sites: Sites) -> State:
        reply = sites.train(state.model, order, pull=pull)
        return State(average(reply.x, weights(reply, weighting)))

    return Algorithm(round)
