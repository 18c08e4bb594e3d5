"""One order for the whole run: drawn once from the seed, the same S clients in the same order every round."""

from torch import Tensor

from baton.schedules.shuffled import shuffled


def fixed(seed: Tensor, round: int, clients: int, participants: int) -> Tensor:
    """seed [L] -> order [L, S]. With S < M the other clients never take part."""
    return shuffled(seed, 0, clients, participants)
