"""Sequential federated learning (SFL, cyclic weight transfer): the paper's Algorithm 1."""

from torch import Tensor

from baton.algorithms.base import Algorithm, Sites, State


def sequential() -> Algorithm:
    """The model is handed from client to client; the last one's is the next round's."""
    return Algorithm(round=_round)


def _round(x: State, order: Tensor, sites: Sites) -> State:
    for client in order.unbind(1):
        x = sites.train(x, client)
    return x
