"""Sequential federated learning (SFL, cyclic weight transfer): the paper's Algorithm 1."""

from baton.algorithms.base import Algorithm
from baton.seam import Cohort, Sites, State


def sequential() -> Algorithm:
    """The model is handed from client to client; the last one's is the next round's."""
    return Algorithm(hand_on)


def hand_on(state: State, order: Cohort, sites: Sites) -> State:
    """One round: each client starts from what the one before it made."""
    x = state.model
    for client in order:
        x = sites.train(x, client).x
    return State(x)
