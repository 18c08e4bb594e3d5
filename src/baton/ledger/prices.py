"""What crosses the network, in bytes, and how long a round would take: counted from shapes, not measured.

Every leg starts with parameters that are handed over; in split form every step sends smashed data and slopes. A round
of legs one after another takes their sum; of legs side by side, as long as its longest.
"""

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from baton.algorithms import Algorithm
from baton.nn import Net
from baton.nn.cut import Sides

LABEL = 8  # bytes of a label, as torch keeps it
BACKWARD = 2  # a backward pass costs about so many forward ones


class Traffic(NamedTuple):
    """Bytes: clients to server, server to clients, client to client."""

    up: Tensor
    down: Tensor
    peer: Tensor


class Prices(NamedTuple):
    """What a run's hand-overs, steps and samples cost."""

    relay: str  # peer, server or average
    parallel: bool  # whether the legs of a round go side by side
    model: int  # bytes of what a client is handed: the model, or its side of it
    sample_up: int  # bytes that cross with each sample of a step
    sample_down: int
    norm: int  # bytes each way that a step's clipping takes, in lanes that clip
    messages: int  # of a step
    client_flops: int  # of one sample in training
    server_flops: int


class Way(NamedTuple):
    """The longest way through a round, which is how long it takes."""

    up: Tensor
    down: Tensor
    peer: Tensor
    messages: Tensor  # one after another
    client_flops: Tensor
    server_flops: Tensor


class Rates(NamedTuple):
    """The simple time model: what clients, server and their links do in a second."""

    client_flops: float = 5e9
    server_flops: float = 1e12
    up: float = 10e6 / 8  # bytes, of a client's link
    down: float = 50e6 / 8
    latency: float = 0.03  # seconds that every message takes, however short


def prices(algorithm: Algorithm, net: Net, sides: Sides | None) -> Prices:
    """Of an algorithm that trains this model, cut into these sides."""
    item, sizes = net.dtype.itemsize, {name: prod(shape) for name, shape in net.sizes().items()}
    how = algorithm.relay or ("average" if algorithm.parallel else "peer"), algorithm.parallel
    if sides is None or algorithm.split is None:
        return Prices(*how, item * sum(sizes.values()), 0, 0, 0, 0, (1 + BACKWARD) * net.flops(), 0)
    mine = sum(sizes[name] for name in (*sides.front.names, *(sides.head.names if sides.head else [])))
    smashed, features = item * prod(sides.front.shape), item * prod(sides.back.shape)
    up, down = (smashed + features,) * 2 if sides.head else (smashed + LABEL, smashed)
    norm = item if algorithm.split.clip == "joint" else 0
    flops = ((1 + BACKWARD) * count for count in sides.flops(net.sample))
    return Prices(*how, item * mine, up, down, norm, 4 if sides.head else 2, *flops)


def step(price: Prices, samples: Tensor, clipped: Tensor) -> Traffic:
    """One step on so many samples; clipped: 1 in lanes that clip, else 0."""
    norm = price.norm * clipped
    return Traffic(
        price.sample_up * samples + norm, price.sample_down * samples + norm, torch.zeros_like(samples + norm)
    )


def leg(price: Prices, samples: Tensor, steps: Tensor, clipped: Tensor) -> Traffic:
    """One leg: its hand-over, and its steps on so many samples in all."""
    crossed = step(price, samples, steps * clipped)
    if price.relay == "peer":
        return crossed._replace(peer=crossed.peer + price.model)
    return crossed._replace(up=crossed.up + price.model, down=crossed.down + price.model)


def round_(price: Prices, samples: Tensor, steps: Tensor, clipped: Tensor) -> Traffic:
    """All legs of a round: samples, steps [..., S] -> [...]; clipped [..., 1]."""
    return Traffic(*(each.sum(-1) for each in leg(price, samples, steps, clipped)))


def way(price: Prices, samples: Tensor, steps: Tensor, clipped: Tensor) -> Way:
    """The longest way through a round: samples, steps [..., S] -> [...].

    One after another, all legs and all hand-overs. Side by side, the most samples and the most steps of any leg; to and
    from an average parameters go side by side too.
    """
    legs = 1 if price.parallel or price.relay == "average" else samples.shape[-1]
    samples, steps = (x.amax(-1) if price.parallel else x.sum(-1) for x in (samples, steps))
    crossed = step(price, samples, steps * clipped.squeeze(-1))
    handed = torch.full_like(samples, legs * price.model)
    messages = price.messages * steps + (legs if price.relay == "peer" else 2 * legs)
    work = price.client_flops * samples, price.server_flops * samples
    if price.relay == "peer":
        return Way(crossed.up, crossed.down, handed, messages, *work)
    return Way(crossed.up + handed, crossed.down + handed, crossed.peer, messages, *work)


def seconds(way: dict[str, float], rates: Rates) -> float:
    """How long a way takes; from client to client the slower of the two links counts."""
    return (
        way["up"] / rates.up
        + way["down"] / rates.down
        + way["peer"] / min(rates.up, rates.down)
        + way["messages"] * rates.latency
        + way["client_flops"] / rates.client_flops
        + way["server_flops"] / rates.server_flops
    )
