"""The server's step from x, once a round has come to an end: what it keeps between rounds, and where it moves."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.ways import Way
from baton.lanes import Params, per_lane, zeros
from baton.seam import Cohort, Sites, State

Second = Callable[[Tensor, Tensor], Tensor]  # (v, the square of the round's way) -> v


class ServerStep(NamedTuple):
    """Pure functions of what the server keeps."""

    first: Callable[[Params], Params]  # x -> what it keeps at first
    move: Callable[[Params, Params, Params], State]  # (x, where the round ended, kept) -> x and kept


def stepping(way: Way, step: ServerStep) -> Algorithm:
    """Rounds of one way, with a step of the server's own at the end of each."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        return step.move(state.model, way(state.model, order, sites), state.server)

    return Algorithm(round, server=lambda x, _now: step.first(x))


def momentum(beta: Tensor, server_lr: Tensor) -> ServerStep:
    """v = beta v + (end - x); x + server_lr v."""

    def move(x: Params, end: Params, kept: Params) -> State:
        v = {n: torch.addcmul(end[n] - leaf, per_lane(beta, leaf), kept[n]) for n, leaf in x.items()}
        return State({n: torch.addcmul(leaf, per_lane(server_lr, leaf), v[n]) for n, leaf in x.items()}, v)

    return ServerStep(zeros, move)


def adaptive(beta: Tensor, tau: Tensor, server_lr: Tensor, second: Second) -> ServerStep:
    """m = beta m + (1 - beta) D, v = second(v, D^2), D = end - x; x + server_lr m / (sqrt(v) + tau).

    v begins at tau^2, the smallest that the paper's theorems take; there is no correction of the first rounds.
    """

    def first(x: Params) -> Params:
        m = {f"m.{n}": torch.zeros_like(leaf) for n, leaf in x.items()}
        return m | {f"v.{n}": torch.zeros_like(leaf) + per_lane(tau, leaf).square() for n, leaf in x.items()}

    def move(x: Params, end: Params, kept: Params) -> State:
        new, m, v = Params(), Params(), Params()
        for n, leaf in x.items():
            way = end[n] - leaf
            m[f"m.{n}"] = torch.lerp(way, kept[f"m.{n}"], per_lane(beta, leaf).expand_as(leaf))
            v[f"v.{n}"] = second(kept[f"v.{n}"], way.square())
            down = v[f"v.{n}"].sqrt().add_(per_lane(tau, leaf))
            new[n] = torch.addcmul(leaf, per_lane(server_lr, leaf), m[f"m.{n}"] / down)
        return State(new, m | v)

    return ServerStep(first, move)
