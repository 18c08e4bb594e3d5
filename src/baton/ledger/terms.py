"""The terms on which an algorithm trains a model: what its legs cost, and what its rounds do."""

from collections.abc import Callable, Hashable
from math import prod
from typing import NamedTuple

from baton.algorithms import Algorithm
from baton.errors import BadInput
from baton.ledger.count import Sizes, Trace, count
from baton.ledger.prices import Prices, held_by_clients, prices
from baton.nn import Net
from baton.nn.cut import Sides
from baton.seam import Now


class Terms(NamedTuple):
    """Prices, and what the rounds of each kind do."""

    price: Prices
    kind: Callable[[int], Hashable]  # of a round, by its number
    trace: dict[Hashable, Trace]

    def kinds(self, rounds: range) -> dict[Hashable, int]:
        """How many of these rounds there are of each kind."""
        if len(self.trace) == 1:
            return {next(iter(self.trace)): len(rounds)}
        every = [self.kind(round) for round in rounds]
        return {kind: every.count(kind) for kind in dict.fromkeys(every)}

    def equals(self, other: "Terms", rounds: int) -> bool:
        """Return whether these rounds cost the same on other terms."""
        same = self.price == other.price and self.trace == other.trace
        return same and (len(self.trace) == 1 or all(self.kind(r) == other.kind(r) for r in range(rounds)))

    @property
    def width(self) -> int:
        """Models that are trained at once, at most."""
        return max(trace.width for trace in self.trace.values())

    @property
    def held(self) -> int:
        """Copies of the model that are there at once, at most."""
        return max(trace.held for trace in self.trace.values())


def _said(sends: int | tuple[str, ...], sizes: Sizes, item: int) -> int:
    """Return the bytes of a model as an algorithm says that it is sent."""
    if isinstance(sends, int):
        return sends
    for word in sends:
        if not any(word in name for name in sizes):
            raise BadInput(f"algorithm: sends: got {word!r}; expected a part of the name of a leaf: {', '.join(sizes)}")
    return item * sum(prod(shape) for name, shape in sizes.items() if any(word in name for word in sends))


def terms(algorithm: Algorithm, net: Net, sides: Sides | None, now: Now) -> Terms:
    """Every kind of round among a run's is counted once, and once more where its model begins elsewhere.

    now: of any round, for one lane.
    """
    hold, sizes, price = held_by_clients(net, sides), net.sizes(), prices(algorithm.split, net, sides)
    if not algorithm.sends:
        price = price._replace(item=0, model=0)
    elif algorithm.sends is not True:
        price = price._replace(model=_said(algorithm.sends, {name: sizes[name] for name in hold}, price.item))
    if algorithm.pools:  # where everything is, everything is computed
        price = price._replace(client_flops=0, server_flops=price.client_flops)
    first = algorithm.kind(0)
    alone, begins = count(algorithm, sizes, hold, now._replace(round=0, kind=first))
    if algorithm.kind is Algorithm._field_defaults["kind"]:
        return Terms(price, algorithm.kind, {first: alone})
    found: dict[Hashable, tuple[Trace, int]] = {}
    kinds: list[Hashable] = []
    for round in range(now.rounds):
        kind = algorithm.kind(round)
        kinds.append((kind, begins))
        if kinds[-1] not in found:
            found[kinds[-1]] = count(algorithm, sizes, hold, now._replace(round=round, kind=kind), begins)
        begins = found[kinds[-1]][1]
    return Terms(price, kinds.__getitem__, {kind: trace for kind, (trace, _) in found.items()})
