"""Participants by size."""

import torch
from torch import Tensor

from baton import rng
from baton.schedules.base import Held, declares


@declares(held=True)
def sized(seed: Tensor, round: Tensor, clients: int, participants: int, held: Held) -> Tensor:
    """S different clients, each next one drawn by its number of samples among those left; M draws a round.

    By exponential races: the first S of M clients whose clocks run at their sizes. Who holds nothing comes last.
    """
    size = held.labels.sum(2)[held.table].double()  # [n, M]
    key = rng.bits(seed.unsqueeze(1), rng.ORDER, round.unsqueeze(1), torch.arange(clients, device=seed.device))
    clock = -torch.log((rng.shift(key, 11).double() + 0.5) * 2.0**-53) / size  # infinite where there is nothing
    return clock.argsort(dim=1, stable=True)[:, :participants]
