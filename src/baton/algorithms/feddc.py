"""FedDC (Kamp et al., 2023): daisy chains, that is, models that are permuted over clients between averages."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.fedseq import check_every, side_by_side
from baton.algorithms.mean import average, check_weighting, weights
from baton.lanes import Params
from baton.seam import Cohort, Now, Sites, State

WHO = "who"  # the clients that trained in the round before, among what the server keeps


def feddc(*, every: int = 10, swap: int = 1, weighting: str = "uniform") -> Algorithm:
    """S models, handed to other clients every swap rounds and averaged every so many (FedDC, Kamp et al., 2023).

    Between two hand-overs the participants stay, and those of a hand-over that was aborted do not come: the ones
    before stay, at first those drawn for round 0. every=1, swap=1 is parallel; swap >= R never hands over. What is
    measured is the models' average.
    """
    check_weighting("feddc", weighting)
    check_every("feddc", "every", every)
    check_every("feddc", "swap", swap)

    def kind(number: int) -> tuple[bool, bool]:
        return number % every == every - 1, number % swap == 0

    def order(state: State, drawn: Tensor, now: Now) -> Tensor:
        assert isinstance(now.kind, tuple)
        return drawn if now.kind[1] else state.server[WHO].round().long()

    def round(state: State, order: Cohort, sites: Sites) -> State:
        assert isinstance(sites.now.kind, tuple)
        reply = sites.train({n: state.server[f"x.{n}"] for n in state.model}, order)
        mean = average(reply.x, weights(reply, weighting))
        ends = side_by_side(mean, len(order)) if sites.now.kind[0] else reply.x
        return State(mean, _server(ends, reply.who(order)))

    def first(x: Params, now: Now) -> Params:
        who = torch.arange(now.participants, device=now.lr.device) if now.drawn is None else now.drawn
        return _server(side_by_side(x, now.participants), who.expand(len(now.lr), -1))

    return Algorithm(round, server=first, order=order if swap > 1 else None, kind=kind)


def _server(models: Params, who: Tensor) -> Params:
    """Models [L, S, ...] and, as whole numbers in their own kind, where they are."""
    like = next(iter(models.values()))
    return {**{f"x.{n}": leaf for n, leaf in models.items()}, WHO: who.to(like.dtype)}
