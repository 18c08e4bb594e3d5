"""What legs that were told with noise give away: epsilon at a delta, by Google's dp-accounting.

Every leg of a client is one Gaussian mechanism, and whoever sees the model before and after it sees that alone: no
average hides it, and the server and all sites know who takes part when, so that drawing S of M hides nothing either.
Gaussian mechanisms that follow one another, each chosen in the light of those before, are together one: the squares of
what a neighbour moves, over the noise, add up.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
import torch

from baton import algorithms, failures, schedules
from baton.errors import BadInput
from baton.fields import Fields
from baton.privacy.rules import noise_of

DELTA = 1e-5
REPLACED, ABSENT = (
    2.0,
    1.0,
)  # how far, in clips, a leg may move where a client's samples are all others; where none count
LOOKED = 10_000_000  # participants that are drawn to count turns; of more, every round counts


class Spent(NamedTuple):
    """What a client gives away in a run."""

    turns: int  # legs of the client that has most
    noise: float
    delta: float
    epsilon: float  # against any other samples in place of all of its own
    absent: float  # against a client whose legs change nothing


def needed() -> None:
    """The accountant is an extra."""
    try:
        import dp_accounting  # noqa: F401
    except ImportError:
        raise BadInput("dp: dp-accounting is not installed; pip install 'baton-fl[privacy]' is right") from None


def loss(noise: float, reach: float = REPLACED) -> float:
    """Of one leg: the square of what a neighbour moves over the noise; those of several legs add up."""
    return (reach / noise) ** 2 if noise else inf


def epsilon(losses: float, delta: float = DELTA) -> float:
    """Of legs whose losses have this sum; without noise, infinity."""
    if not 0 < delta < 1:
        raise BadInput(f"delta: {delta:g}; above 0 and below 1 is right")
    if not losses or losses == inf:
        return losses
    needed()
    from dp_accounting import get_epsilon_gaussian

    return float(get_epsilon_gaussian(1 / sqrt(losses), delta))


def noise_for(aim: float, legs: int, delta: float = DELTA) -> float:
    """The least noise multiplier with which so many legs of a client have this epsilon."""
    needed()
    from dp_accounting import get_sigma_gaussian

    return REPLACED * sqrt(legs) * float(get_sigma_gaussian(aim, delta))


def turns(s: Fields) -> int:
    """Legs of the client that trains most often, as the run's order has it.

    Where orders depend on more than draws (an algorithm's own, what clients hold, a lost leg that goes elsewhere), a
    leg in every round.
    """
    schedule, own = schedules.build(s.schedule), algorithms.build(s.algorithm)
    told = schedule.declared
    most = s.rounds * (s.participants if told.repeats else 1)
    chosen = own.order is not None or told.held or failures.policy(s.on_failure).elsewhere
    everybody = s.participants == s.clients and not told.repeats
    if chosen or everybody or s.rounds * s.participants > LOOKED:
        return most
    seed = torch.full((s.rounds,), s.seed)
    drawn = schedule.draw(seed, torch.arange(s.rounds), s.clients, s.participants, None)
    return int(np.unique(drawn.numpy(), return_counts=True)[1].max())


def spent(s: Fields, delta: float = DELTA) -> Spent | None:
    """What a run's protection comes to at its end; None: it has none."""
    if s.dp == "none":
        return None
    noise, count = noise_of(s.dp), turns(s)
    both = [epsilon(count * loss(noise, reach), delta) for reach in (REPLACED, ABSENT)]
    return Spent(count, noise, delta, *both)
