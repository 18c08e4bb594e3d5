"""Parallel federated learning (PFL, FedAvg): the paper's Algorithm 2."""

from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, towards, weights
from baton.names import lane
from baton.seam import Cohort, Sites, State


def parallel(*, weighting: str = "uniform", server_lr: Tensor = lane(1.0, above=0.0)) -> Algorithm:
    """All participants start from the same model; results are averaged (Algorithm 2; McMahan et al., 2017).

    weighting=uniform is Algorithm 2's plain mean; size weights each participant by its number of samples, as the
    published runs do. The server moves from x to the average by the factor server_lr.
    """
    check_weighting("parallel", weighting)
    move = towards(server_lr)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        reply = sites.train(state.model, order)
        return State(move(state.model, average(reply.x, weights(reply, weighting))))

    return Algorithm(round)
