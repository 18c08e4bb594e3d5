"""What is done when a leg does not come back: one rule, for simulated and for real sites.

A leg is tried at a list of clients, one after another, until one of them answers. The list is drawn before anything is
tried, so that a simulation can look at all of it and a server can walk along it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.failures.rules import Failing, Policy

NOBODY = -1  # no other client is left to ask


class Walked(NamedTuple):
    """How a leg went: [L, C] each."""

    client: Tensor  # who answered; whom it was meant for, where nobody did
    tried: Tensor  # hand-overs
    came: Tensor  # whether anybody answered


def tries(
    policy: Policy,
    seed: Tensor,
    round: int | Tensor,
    client: Tensor,
    order: Tensor,
    clients: int,
    places: tuple[int, ...] | None = None,
) -> Tensor:
    """Whom to ask, one after another: client [L, C] -> [L, C, T]. order [L, S]: who takes part in the round anyway.

    Others are drawn once a round, and handed out by the legs' places in its order: nobody is asked for two of them.
    places: where these legs stand in it; None: where their clients stand first.
    """
    more, legs = policy.tries, order.shape[1]
    if not policy.elsewhere:
        return client.unsqueeze(2).expand(*client.shape, 1 + more)
    drawn = rng.choose(rng.bits(seed, rng.REROUTE, round), clients, min(clients, legs * (1 + more)))  # [L, N]
    busy = (drawn.unsqueeze(2) == order.unsqueeze(1)).any(2)
    first = busy.to(torch.int8).argsort(dim=1, stable=True)  # those that are free, in the order drawn
    free = torch.where(busy.gather(1, first), NOBODY, drawn.gather(1, first))
    free = torch.cat([free, free.new_full((len(free), legs * more), NOBODY)], 1)
    place = _places(client, order, places)
    others = [free.gather(1, place + legs * again) for again in range(more)]
    return torch.stack([client, *others], 2)


def _places(client: Tensor, order: Tensor, places: tuple[int, ...] | None) -> Tensor:
    """Where legs stand in the round's order [L, C]."""
    if places is not None:
        every = torch.arange(order.shape[1], device=client.device)
        return torch.stack([every[place] for place in places]).expand_as(client)  # no copy from the host
    return (client.unsqueeze(2) == order.unsqueeze(1)).to(torch.int8).argmax(2)


def lost(failing: Failing, seed: Tensor, round: int | Tensor, asked: Tensor, again: Tensor | None = None) -> Tensor:
    """Which of these do not answer: asked [L, C, T] -> [L, C, T]. T: the first time they are asked, the second, ...

    again [L, C]: how often the leg's client stands earlier in the round's order; its legs there are lost or not by
    themselves, while all visits of one leg (a second look) are lost together.
    """
    number = torch.arange(asked.shape[2], device=asked.device)
    key = rng.bits(seed.view(-1, 1, 1), rng.FAILURE, round, asked, number)
    if again is not None:
        key = torch.where(again.unsqueeze(2) > 0, rng.bits(key, again.unsqueeze(2)), key)
    gone = rng.uniform(key) < failing.share
    if failing.who:
        gone = gone & torch.stack([asked == client for client in failing.who]).any(0)  # nothing comes from the host
    return gone | (asked == NOBODY)


def walked(
    failing: Failing,
    policy: Policy,
    seed: Tensor,
    round: int | Tensor,
    client: Tensor,
    order: Tensor,
    clients: int,
    places: tuple[int, ...] | None = None,
) -> Walked:
    """How legs at these clients [L, C] go; places: where they stand in the round's order, if that is known."""
    asked = tries(policy, seed, round, client, order, clients, places)
    again = None
    if places is not None:
        left = torch.arange(order.shape[1], device=order.device) < _places(client, order, places).unsqueeze(2)
        again = ((client.unsqueeze(2) == order.unsqueeze(1)) & left).sum(2)
    gone = lost(failing, seed, round, asked, again)
    first = (~gone).to(torch.int8).argmax(2, keepdim=True)  # the first that answers
    came = ~gone.all(2)
    real = (asked != NOBODY).sum(2)
    answered = asked.gather(2, first).squeeze(2)
    return Walked(torch.where(came, answered, client), torch.where(came, first.squeeze(2) + 1, real), came)
