"""Sequential federated learning (SFL, cyclic weight transfer): the paper's Algorithm 1."""

from torch import Tensor

from baton.algorithms.base import Algorithm, Sites, State


def sequential() -> Algorithm:
    """The model is handed from client to client; the last one's is the next round's."""
    return Algorithm(round=hand_on)


def hand_on(x: State, order: Tensor, sites: Sites) -> State:
    """One round: each client starts from what the one before it made."""
    for client in order.unbind(1):
        x = sites.train(x, client)
    return x
