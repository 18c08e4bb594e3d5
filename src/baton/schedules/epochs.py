"""Orders over epochs: every client once an epoch, S a round.

Where S does not divide M, the last round of an epoch takes the order's last S clients: some of them come again.
"""

import torch
from torch import Tensor

from baton import rng
from baton.schedules.base import declares


def _places(round: Tensor, clients: int, participants: int) -> tuple[Tensor, Tensor]:
    """(the epoch [n] of each round, its participants' places in the epoch's order [n, S])."""
    rounds = -(-clients // participants)
    begin = (round % rounds * participants).clamp(max=clients - participants)
    return round // rounds, begin.unsqueeze(1) + torch.arange(participants, device=round.device)


def _of_shuffles(seed: Tensor, number: Tensor, places: Tensor, clients: int) -> Tensor:
    """The clients at some places of a seed's number-th permutation of all; each permutation is drawn once."""
    pairs, of = torch.stack([seed, number], 1).unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
    every = rng.choose(rng.bits(pairs[:, 0], rng.ORDER, pairs[:, 1]), clients, clients)
    return every[of].gather(1, places)


def incremental(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """Clients in their natural order 0, 1, ..., S a round, over and over (IG)."""
    return _places(round, clients, participants)[1]


@declares(uniform=True)
def once(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """One shuffled order of all clients, S a round, over and over (shuffle once)."""
    _, places = _places(round, clients, participants)
    return _of_shuffles(seed, torch.zeros_like(round), places, clients)


@declares(uniform=True)
def reshuffled(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """All clients in a shuffled order, S a round, shuffled anew each epoch (random reshuffling)."""
    epoch, places = _places(round, clients, participants)
    return _of_shuffles(seed, epoch, places, clients)


@declares(uniform=True)
def flipflop(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """As reshuffled, but every second epoch is the one before it backwards (FlipFlop, Rajput et al., 2022)."""
    epoch, places = _places(round, clients, participants)
    places = torch.where((epoch % 2 == 1).unsqueeze(1), clients - 1 - places, places)
    return _of_shuffles(seed, epoch // 2, places, clients)
