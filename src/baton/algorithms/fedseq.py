"""FedSeq (Zaccone et al., 2022): chains side by side, and an average of their ends."""

from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting
from baton.errors import BadInput
from baton.seam import Cohort, Reply, Sites, State


def fedseq(*, groups: int, weighting: str = "size") -> Algorithm:
    """Participants in groups of equal size: a chain in each, then the ends averaged, by their groups' samples.

    One group is sequential; groups of one are parallel:weighting=size.
    """
    if groups < 1:
        raise BadInput(f"algorithm: fedseq has groups={groups}; 1 or more is right")
    check_weighting("fedseq", weighting)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        if len(order) % groups:
            raise BadInput(f"algorithm: fedseq has groups={groups}; a number that divides S = {len(order)} is right")
        x, weight = state.model, None
        for clients in order.chains(groups):
            reply = sites.train(x, clients)
            x = reply.x
            weight = _and(weight, reply, weighting)
        assert weight is not None
        return State(average(x, weight))

    return Algorithm(round)


def _and(weight: Tensor | None, reply: Reply, weighting: str) -> Tensor:
    """What the chains count so far: [L, C]."""
    each = reply.samples if weighting == "size" else reply.samples.new_ones(reply.samples.shape)
    each = each if reply.came is None else each * reply.came
    return each if weight is None else weight + each
