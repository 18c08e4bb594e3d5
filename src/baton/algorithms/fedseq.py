"""FedSeq and FedSeqInter (Zaccone et al., 2022): chains side by side, their ends averaged now or later."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting
from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import Cohort, Reply, Sites, State


def fedseq(*, groups: int, weighting: str = "size") -> Algorithm:
    """A chain in each of some groups of participants, their ends averaged by size (FedSeq, Zaccone et al., 2022).

    One group is sequential; groups of one are parallel:weighting=size. Where groups does not divide S the first groups
    have one client more. Who is in a group is the schedule's: `grouped`.
    """
    _check("fedseq", groups, weighting)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        ends, weight = chains("fedseq", groups, weighting, state.model, order, sites)
        return State(average(ends, weight))

    return Algorithm(round)


def fedseqinter(*, groups: int, every: int = 5, weighting: str = "size") -> Algorithm:
    """FedSeq whose chains go on from group to group and are averaged every so many rounds (Zaccone et al., 2022).

    every=1 is fedseq. Between averages the server keeps the chains' models; what is measured is their average.
    """
    _check("fedseqinter", groups, weighting)
    check_every("fedseqinter", "every", every)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        ends, weight = chains("fedseqinter", groups, weighting, state.server, order, sites)
        return apart(ends, average(ends, weight), bool(sites.now.kind))

    return Algorithm(
        round, server=lambda x, _now: side_by_side(x, groups), kind=lambda number: number % every == every - 1
    )


def _check(name: str, groups: int, weighting: str) -> None:
    if groups < 1:
        raise BadInput(f"algorithm: {name} has groups={groups}; 1 or more is right")
    check_weighting(name, weighting)


def check_every(name: str, option: str, every: int) -> None:
    """A number of rounds."""
    if every < 1:
        raise BadInput(f"algorithm: {name} has {option}={every}; 1 or more rounds is right")


def chains(name: str, groups: int, weighting: str, x: Params, order: Cohort, sites: Sites) -> tuple[Params, Tensor]:
    """(the ends of chains side by side [L, groups, ...], what each counts); x: one model for all, or one each."""
    if groups > len(order):
        raise BadInput(f"algorithm: {name} has groups={groups}; at most S = {len(order)} is right")
    weight = None
    for clients in order.chains(groups):
        if weight is None or len(clients) == groups:
            reply = sites.train(x, clients)
            x, weight = reply.x, _and(weight, reply, weighting)
        else:  # the last of the longer chains; the others have come to their end
            some = len(clients)
            reply = sites.train({n: leaf[:, :some] for n, leaf in x.items()}, clients)
            x = {n: torch.cat([leaf, x[n][:, some:]], 1) for n, leaf in reply.x.items()}
            weight = torch.cat([_and(weight[:, :some], reply, weighting), weight[:, some:]], 1)
    assert weight is not None
    return x, weight


def side_by_side(x: Params, count: int) -> Params:
    """One model so many times: [L, count, ...]."""
    return {n: leaf.unsqueeze(1).repeat(1, count, *[1] * (leaf.dim() - 1)) for n, leaf in x.items()}


def apart(ends: Params, mean: Params, meet: bool) -> State:
    """Models that go on apart, each where its neighbour was, or that meet in their mean."""
    count = next(iter(ends.values())).shape[1]
    return State(mean, side_by_side(mean, count) if meet else {n: leaf.roll(1, 1) for n, leaf in ends.items()})


def _and(weight: Tensor | None, reply: Reply, weighting: str) -> Tensor:
    """What the chains count so far: [L, C]."""
    each = reply.samples if weighting == "size" else reply.samples.new_ones(reply.samples.shape)
    each = each if reply.came is None else each * reply.came
    return each if weight is None else weight + each
