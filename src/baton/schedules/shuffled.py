"""The paper's schedule: S of M clients without replacement, in random order, anew each round."""

from torch import Tensor

from baton import rng
from baton.schedules.base import declares


@declares(uniform=True, fresh=True)
def shuffled(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """S of M clients in random order, anew each round; uniform over ordered subsets."""
    return rng.choose(rng.bits(seed, rng.ORDER, round), clients, participants)
