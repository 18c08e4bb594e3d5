"""The paper's schedule: S of M clients without replacement, in random order, anew each round."""

from torch import Tensor

from baton import rng


def shuffled(seed: Tensor, round: int, clients: int, participants: int) -> Tensor:
    """seed [L] -> order [L, S], uniform over ordered subsets."""
    return rng.choose(rng.bits(seed, rng.ORDER, round), clients, participants)
