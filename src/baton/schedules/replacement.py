"""Participants with replacement."""

import torch
from torch import Tensor

from baton import rng
from baton.schedules.base import declares


@declares(uniform=True, repeats=True, fresh=True)
def replacement(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """S independent draws from all clients: one may take part twice in a round."""
    place = torch.arange(participants, device=seed.device)
    return rng.below(rng.bits(seed.unsqueeze(1), rng.ORDER, round.unsqueeze(1), place), clients)
