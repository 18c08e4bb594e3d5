"""The terms on which an algorithm trains a model: what its legs cost, and what its rounds do."""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from baton.algorithms import Algorithm
from baton.ledger.count import Trace, count
from baton.ledger.prices import Prices, held_by_clients, prices
from baton.nn import Net
from baton.nn.cut import Sides
from baton.seam import Now


class Terms(NamedTuple):
    """Prices, and what the rounds of each kind do."""

    price: Prices
    kind: Callable[[int], Hashable]
    trace: dict[Hashable, Trace]

    def kinds(self, rounds: range) -> dict[Hashable, int]:
        """How many of these rounds there are of each kind."""
        if len(self.trace) == 1:
            return {next(iter(self.trace)): len(rounds)}
        every = [self.kind(round) for round in rounds]
        return {kind: every.count(kind) for kind in dict.fromkeys(every)}

    @property
    def width(self) -> int:
        """Models that are trained at once, at most."""
        return max(trace.width for trace in self.trace.values())

    @property
    def held(self) -> int:
        """Copies of the model that are there at once, at most."""
        return max(trace.held for trace in self.trace.values())


def terms(algorithm: Algorithm, net: Net, sides: Sides | None, now: Now) -> Terms:
    """Every kind of round among a run's is counted once. now: of any round, for one lane."""
    alike = algorithm.kind is Algorithm._field_defaults["kind"]
    first = {algorithm.kind(r): r for r in reversed(range(1 if alike else now.rounds))}
    hold, sizes = held_by_clients(net, sides), net.sizes()
    trace = {k: count(algorithm, sizes, hold, now._replace(round=r, kind=k)) for k, r in first.items()}
    return Terms(prices(algorithm.split, net, sides), algorithm.kind, trace)
