"""FedSeq and FedSeqInter (Zaccone et al., 2022): chains side by side, their ends averaged now or later."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting
from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import Cohort, Reply, Sites, State


def fedseq(*, groups: int, weighting: str = "uniform") -> Algorithm:
    """A chain in each of some groups of participants, their ends averaged (FedSeq, Zaccone et al., 2022).

    One group is sequential; groups of one are parallel. A chain counts its clients, or with weighting=size their
    samples. Where groups does not divide S the first groups have one client more. Who is in a group is the schedule's:
    `grouped`.
    """
    _check("fedseq", groups, weighting)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        ends, weight = chains("fedseq", groups, weighting, state.model, order, sites, apart=False)
        return State(average(ends, weight))

    return Algorithm(round)


def fedseqinter(*, groups: int, every: int = 5, weighting: str = "uniform") -> Algorithm:
    """FedSeq whose chains go on from group to group and are averaged every so many rounds (Zaccone et al., 2022).

    every=1 is fedseq. Between averages the server keeps the chains' models; what is measured is their average.
    """
    _check("fedseqinter", groups, weighting)
    check_every("fedseqinter", "every", every)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        ends, weight = chains("fedseqinter", groups, weighting, state.server, order, sites, apart=True)
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


def chains(
    name: str, groups: int, weighting: str, x: Params, order: Cohort, sites: Sites, *, apart: bool
) -> tuple[Params, Tensor]:
    """(the ends of chains side by side [L, groups, ...], what each counts); x: one model for all; apart: one each."""
    if groups > len(order):
        raise BadInput(f"algorithm: {name} has groups={groups}; at most S = {len(order)} is right")
    columns, longer = order.chains(groups), len(order) % groups
    if not longer:
        return _along(x, None, columns, weighting, sites)
    weight: Tensor | None = None
    if len(columns) > 2:
        x, weight = _along(x, None, columns[:-2], weighting, sites)
        apart = True
    ends = []  # of the longer chains, whose last clients are left, and of the others, which go home before
    for part, clients in (
        (slice(None, longer), [columns[-2][:longer], columns[-1]]),
        (slice(longer, None), [columns[-2][longer:]]),
    ):
        own = {n: leaf[:, part] for n, leaf in x.items()} if apart else x
        ends.append(_along(own, None if weight is None else weight[:, part], clients, weighting, sites))
    (far, one), (near, two) = ends
    return {n: torch.cat([leaf, near[n]], 1) for n, leaf in far.items()}, torch.cat([one, two], 1)


def _along(
    x: Params, weight: Tensor | None, columns: list[Cohort], weighting: str, sites: Sites
) -> tuple[Params, Tensor]:
    """Chains of equal length, further: their models, and what they count."""
    for clients in columns:
        reply = sites.train(x, clients)
        x, weight = reply.x, _and(weight, reply, weighting)
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
