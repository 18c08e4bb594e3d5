"""Sequential federated learning (SFL, cyclic weight transfer): the paper's Algorithm 1, and what chains may have."""

from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.ways import handed_on
from baton.errors import BadInput
from baton.lanes import Params
from baton.names import lane
from baton.seam import Cohort, Sites, State


def sequential(
    *,
    mu: Tensor = lane(0.0, least=0.0),
    decay: Tensor = lane(1.0, above=0.0, most=1.0),
    last: int = 1,
    ema: float = 0.0,
) -> Algorithm:
    """The model is handed from client to client, and on to the next round (Algorithm 1; Chang et al., 2018).

    mu: each step adds mu (y - the model handed over), FedProx's pull in a chain. decay: the learning rate is decay^i at
    the i-th client (Balachandar et al., 2020). last: a round ends with the mean of its last so many models (SWA,
    Izmailov et al., 2018). ema: it ends with e, e = ema e + (1 - ema) y after each client, from the round's first
    model on.
    """
    averaged = ema > 0
    if not 0 <= ema < 1:
        raise BadInput(f"algorithm: sequential has ema={ema:g}; 0 (the end of the chain) or more, below 1, is right")
    if last < 1:
        raise BadInput(f"algorithm: sequential has last={last}; 1 (the end of the chain) or more is right")
    if last > 1 and averaged:
        raise BadInput(f"algorithm: sequential has last={last} and ema; one of them is right")
    pull = mu if bool((mu > 0).any()) else None
    slower = decay if bool((decay < 1).any()) else None
    if pull is None and slower is None and last == 1 and not averaged:
        return Algorithm(hand_on)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        if last > len(order):
            raise BadInput(f"algorithm: sequential has last={last}; at most S = {len(order)} is right")
        x, rate, tail, mean = state.model, None, list[Params](), state.model
        for place, client in enumerate(order):
            x = sites.train(x, client, pull=pull, rate=rate).x
            if slower is not None:
                rate = slower if rate is None else rate * slower
            if averaged:
                mean = {n: leaf + ema * (mean[n] - leaf) for n, leaf in x.items()}
            if place >= len(order) - last:
                tail.append(x)
        return State(mean if averaged else _mean(tail))

    return Algorithm(round)


def _mean(models: list[Params]) -> Params:
    if len(models) == 1:
        return models[0]
    return {n: sum((x[n] for x in models[1:]), leaf) / len(models) for n, leaf in models[0].items()}


def hand_on(state: State, order: Cohort, sites: Sites) -> State:
    """One round: each client starts from what the one before it made."""
    return State(handed_on(state.model, order, sites))
