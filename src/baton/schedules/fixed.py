"""One order for the whole run: drawn once from the seed, the same S clients in the same order every round."""

import torch
from torch import Tensor

from baton.schedules.base import declares
from baton.schedules.shuffled import shuffled


@declares(uniform=True)
def fixed(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """One order for the whole run, drawn once from the seed. With S < M the other clients never take part."""
    return shuffled(seed, torch.zeros_like(seed), clients, participants)
