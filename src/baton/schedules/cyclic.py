"""Cyclic participation (Cho et al., 2023): groups of clients that take turns."""

import torch
from torch import Tensor

from baton import rng
from baton.errors import BadInput
from baton.schedules.base import declares


@declares()
def cyclic(seed: Tensor, round: Tensor, clients: int, participants: int, *, groups: int) -> Tensor:
    """Groups of equal size take turns, a round each: S clients drawn from the one whose turn it is (Cho et al., 2023).

    Groups are neighbours by number; M not a multiple of groups: the first M % groups have a client more.
    """
    if not 1 <= groups <= clients:
        raise BadInput(f"schedule: cyclic has groups={groups}; 1 to M = {clients} is right")
    if clients // groups < participants:
        raise BadInput(
            f"schedule: cyclic has groups={groups} of {clients // groups} clients; S = {participants} is more"
        )
    turn, more = round % groups, clients % groups
    size = clients // groups + (turn < more).long()
    first = turn * (clients // groups) + torch.minimum(turn, torch.full_like(turn, more))
    key = rng.bits(seed, rng.ORDER, round)
    least = clients // groups
    return first.unsqueeze(1) + rng.passes(key, size, participants, least, least + (more > 0))
