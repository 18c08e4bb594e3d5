"""What crosses the network, in bytes, and how long a round would take: counted from shapes, not measured.

Every leg starts with parameters that are handed over; in split form every step sends smashed data and slopes. What a
round does is counted (count.py); here is what that costs.
"""

from collections.abc import Callable
from functools import reduce
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from baton.ledger.count import SERVER, Call, Trace
from baton.nn import Net
from baton.nn.cut import Sides
from baton.seam import Split

LABEL = 8  # bytes of a label, as torch keeps it
BACKWARD = 2  # a backward pass costs about so many forward ones


class Traffic(NamedTuple):
    """Bytes: clients to server, server to clients, client to client."""

    up: Tensor
    down: Tensor
    peer: Tensor


class Prices(NamedTuple):
    """What a run's hand-overs, steps and samples cost."""

    item: int  # bytes of a number
    model: int  # bytes of what a client is handed: the model, or its side of it
    sample_up: int  # bytes that cross with each sample of a step
    sample_down: int
    norm: int  # bytes each way that a step's clipping takes, in lanes that clip
    messages: int  # of a step
    client_flops: int  # of one sample in training
    server_flops: int

    @property
    def by_the_leg(self) -> bool:
        """Whether all legs cost the same, whoever trains."""
        return not (self.sample_up or self.sample_down or self.norm)


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


def prices(split: Split | None, net: Net, sides: Sides | None) -> Prices:
    """Of legs that train this model, cut into these sides."""
    item, sizes = net.dtype.itemsize, {name: prod(shape) for name, shape in net.sizes().items()}
    if sides is None or split is None:
        return Prices(item, item * sum(sizes.values()), 0, 0, 0, 0, (1 + BACKWARD) * net.flops(), 0)
    mine = sum(sizes[name] for name in held_by_clients(net, sides))
    smashed, features = item * prod(sides.front.shape), item * prod(sides.back.shape)
    up, down = (smashed + features,) * 2 if sides.head else (smashed + LABEL, smashed)
    norm = item if split.clip == "joint" else 0
    flops = ((1 + BACKWARD) * count for count in sides.flops(net.sample))
    return Prices(item, item * mine, up, down, norm, 4 if sides.head else 2, *flops)


def held_by_clients(net: Net, sides: Sides | None) -> list[str]:
    """The parameters that a client is handed."""
    return list(net.sizes()) if sides is None else [*sides.front.names, *(sides.head.names if sides.head else [])]


class Done(NamedTuple):
    """What a round's participants did: [..., S], in the round's order."""

    samples: Tensor
    steps: Tensor
    clipped: Tensor  # [..., 1]: 1 in lanes that clip, else 0
    tried: Tensor | None = None  # hand-overs it took until a leg came back, or was given up; None: one each
    came: Tensor | None = None  # 1 where it did; None: all

    def part(self, of: Callable[[Tensor], Tensor]) -> "Done":
        """Some legs, lanes or rounds of it."""
        tried, came = (None if x is None else of(x) for x in (self.tried, self.came))
        return Done(of(self.samples), of(self.steps), of(self.clipped.expand_as(self.samples)), tried, came)


def step(price: Prices, samples: Tensor, clipped: Tensor) -> Traffic:
    """One step on so many samples; clipped: 1 in lanes that clip, else 0."""
    norm = price.norm * clipped
    return Traffic(
        price.sample_up * samples + norm, price.sample_down * samples + norm, torch.zeros_like(samples + norm)
    )


class _Legs(NamedTuple):
    """One call of a round: what its legs cost, [..., legs] each."""

    handed: Traffic  # models, to the clients
    steps: Traffic
    up: Tensor  # models, to the server
    messages: Tensor  # of the hand-overs
    work: Done


def _legs(price: Prices, call: Call, work: Done) -> _Legs:
    at = list(call.places) if call.places is not None else [p % work.samples.shape[-1] for p in range(call.legs)]
    work = work.part(lambda x: x[..., at])
    ones = torch.ones_like(work.samples)
    tried, came = ones if work.tried is None else work.tried, ones if work.came is None else work.came
    peers, model = call.source != SERVER, 0 if call.there else price.model
    down = tried * (price.item * call.more + (0 if peers else model))
    handed = Traffic(torch.zeros_like(down), down, tried * (model if peers else 0))
    crossed = step(price, work.samples * came, work.steps * came * work.clipped)
    back = came * (price.model if call.up else 0)
    messages = tried if model or (price.model and call.more) else torch.zeros_like(tried)
    return _Legs(handed, crossed, back, messages, work._replace(samples=work.samples * came, steps=work.steps * came))


def round_(price: Prices, trace: Trace, work: Done) -> Traffic:
    """All legs of a round: [...]."""
    every = [_legs(price, call, work) for call in trace.calls]
    none = torch.zeros_like(work.samples[..., 0])
    up = sum(((legs.steps.up + legs.up).sum(-1) for legs in every), none)
    down = sum(((legs.steps.down + legs.handed.down).sum(-1) for legs in every), none)
    peer = sum((legs.handed.peer.sum(-1) for legs in every), none)
    return Traffic(up + (price.model if trace.fetched else 0), down, peer)


def way(price: Prices, trace: Trace, work: Done) -> Way:
    """The longest way through a round: the most of each field, over all ways.

    One call's legs go side by side; a leg begins when what it starts from is there.
    """
    none = torch.zeros_like(work.samples[..., :1])
    begin = torch.stack([none] * len(Way._fields))  # [6, ..., 1]
    fetched = begin + _up(none + (price.model if trace.fetched else 0))
    ends: list[Tensor] = []  # of each call: where its models are trained; [6, ..., legs]
    homes: list[Tensor] = []  # and at the server, where they go there
    for call in trace.calls:
        legs = _legs(price, call, work)
        done = legs.work
        start = fetched if call.source == SERVER else ends[call.source] if call.source >= 0 else begin
        if start.shape[-1] not in (1, call.legs):  # not one leg's model for each
            start = start.amax(-1, keepdim=True)
        start = _latest([start, *(homes[i].amax(-1, keepdim=True) for i in call.ready)])
        nothing = torch.zeros_like(legs.messages)
        start = start + torch.stack([*legs.handed, legs.messages, nothing, nothing])
        start = _latest([start, *(ends[i].amax(-1, keepdim=True) for i in call.beside)])
        flops = price.client_flops * done.samples, price.server_flops * done.samples
        ends.append(start + torch.stack([*legs.steps, price.messages * done.steps, *flops]))
        homes.append(ends[-1] + _up(legs.up))
    return Way(*_latest([each.amax(-1) for each in (fetched, *homes)]).unbind(0))


def _up(sent: Tensor) -> Tensor:
    """Models on their way to the server: [6, ...]."""
    nothing = torch.zeros_like(sent)
    return torch.stack([sent, nothing, nothing, (sent > 0).to(sent.dtype), nothing, nothing])


def _latest(ways: list[Tensor]) -> Tensor:
    return reduce(torch.maximum, ways)


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
