"""What the rounds of a run over real sites sent and took: as the ledger models it, and as it was measured."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from baton import algorithms, clients, ledger
from baton.deploy.answers import Outcome
from baton.sites.server import Server
from baton.store.columns import BYTES, REAL


class Account(NamedTuple):
    """Since the run began."""

    rounds: int = 0
    sent: tuple[float, ...] = (0.0,) * len(BYTES)  # modelled
    way: tuple[float, ...] = (0.0,) * len(ledger.Way._fields)  # modelled: summed over rounds
    real: tuple[float, ...] = (0.0,) * len(REAL)  # measured: bytes up, bytes down, seconds, lost legs

    def columns(self) -> dict[str, float]:
        """For metrics.csv."""
        return dict(zip((*BYTES, *REAL), (*self.sent, *self.real), strict=True))

    def mean_way(self) -> dict[str, float]:
        """Of a round."""
        return {name: total / max(1, self.rounds) for name, total in zip(ledger.Way._fields, self.way, strict=True)}


class Books:
    """Of one run."""

    def __init__(self, server: Server) -> None:
        s = server.setting
        own = algorithms.build(s.algorithm, server.net.dtype)
        self.setting, self.passes = s, own.split.passes if own.split else 0
        self.terms = ledger.terms(own, server.net, server.cut, server.now(0))

    def then(self, before: Account, number: int, legs: Sequence[Sequence[Outcome]], seconds: float) -> Account:
        """After one more round; legs: of each, in the order they were begun, how its tries went."""
        trace, s = self.terms.trace[self.terms.kind(number)], self.setting
        held, tried, came = (torch.zeros(1, s.participants, dtype=torch.int64) for _ in range(3))
        places = [p % s.participants for call in trace.calls for p in (call.places or range(call.legs))]
        for place, tries in zip(places, legs, strict=False):  # a round of a user's own may have done something else
            answer = tries[-1].answer
            held[0, place], tried[0, place] = answer.samples if answer else 0, len(tries)
            came[0, place] = int(answer is not None)
        clipped = torch.full((1, 1), int(s.clip > 0))
        work = ledger.Done(*clients.taken(held, s, self.passes), clipped, tried, came)
        price, every = self.terms.price, [each for tries in legs for each in tries]
        sent = torch.stack(ledger.round_(price, trace, work)).double().view(-1).tolist()
        way = torch.stack(ledger.way(price, trace, work)).double().view(-1).tolist()
        lost = sum(each.answer is None for each in every)
        real = [sum(each.up for each in every), sum(each.down for each in every), seconds, lost]
        sums = _plus(before.sent, sent), _plus(before.way, way), _plus(before.real, real)
        return Account(before.rounds + 1, *sums)


def _plus(a: Sequence[float], b: Sequence[float]) -> tuple[float, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))
