"""Clients that come and go."""

import torch
from torch import Tensor

from baton import rng
from baton.errors import BadInput
from baton.schedules.base import declares


@declares(uniform=True)
def markov(
    seed: Tensor, round: Tensor, clients: int, participants: int, *, share: float = 0.5, stay: float = 10.0
) -> Tensor:
    """S of the clients that are there; each comes and goes as a Markov chain, there a share of the time.

    A client's state is drawn anew with probability 1/stay a round: it lasts that long on average before it may change.
    Where fewer than S are there, others fill the places. M draws for each round looked back on.
    """
    if not 0 < share <= 1 or not 1 <= stay < float("inf"):
        raise BadInput(f"schedule: markov has share={share:g}, stay={stay:g}; 0 < share <= 1 and stay >= 1 is right")
    who = torch.arange(clients, device=seed.device)
    since = _last_draw(seed, round, who, 1 / stay)  # [n, M]
    there = rng.uniform(rng.bits(seed.unsqueeze(1), rng.AWAY, since, who, 1)) < share
    key = rng.shift(rng.bits(seed.unsqueeze(1), rng.ORDER, round.unsqueeze(1), who), 2)  # 62 bits
    return torch.where(there, key, key | (1 << 62)).argsort(dim=1, stable=True)[:, :participants]


def _last_draw(seed: Tensor, round: Tensor, who: Tensor, chance: float) -> Tensor:
    """The last round up to this one in which a client's state was drawn; the first round's always is."""
    at = round.unsqueeze(1).expand(-1, len(who)).clone()
    for _ in range(int(round.max()) if len(round) else 0):
        drawn = rng.uniform(rng.bits(seed.unsqueeze(1), rng.AWAY, at, who, 0)) < chance
        older = ~drawn & (at > 0)
        if not bool(older.any()):
            break
        at -= older.long()
    return at
