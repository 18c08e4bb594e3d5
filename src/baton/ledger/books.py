"""The ledger of a program's lanes: bytes over some rounds, and the mean way through a round.

Who takes part is drawn again: draws are pure, so nothing has to be carried from round to round or over a crash.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import ledger
from baton.simulate.program import Program
from baton.store.columns import BYTES

LEGS = 16384  # drawn in one go
Values = dict[str, NDArray[np.float64]]  # column -> [L]


def traffic(program: Program, rounds: range) -> Values:
    """What these rounds send, in bytes."""
    price, lanes = program.prices, len(program.seeds)
    total = torch.zeros(len(BYTES), lanes, dtype=torch.int64)
    if price.sample_up or price.sample_down or price.norm:
        for work in _blocks(program, rounds):
            total += torch.stack(ledger.round_(price, *work)).sum(-1).cpu()
    else:  # parameters only: every leg is the same
        none = torch.zeros(lanes, program.setting.participants, dtype=torch.int64)
        total += len(rounds) * torch.stack(ledger.round_(price, none, none, none))
    return dict(zip(BYTES, total.double().numpy(), strict=True))


def ways(program: Program) -> list[dict[str, float]]:
    """The longest way through a round of each lane, as a mean over all rounds of the run."""
    rounds = range(program.setting.rounds)
    total = sum(torch.stack(ledger.way(program.prices, *work)).double().sum(-1) for work in _blocks(program, rounds))
    assert isinstance(total, Tensor)
    return [dict(zip(ledger.Way._fields, lane, strict=True)) for lane in (total / len(rounds)).T.tolist()]


class Account(NamedTuple):
    """Bytes of a full step, and of a leg and a round on average, by way (up, down, peer); and the mean way."""

    step: dict[str, float]
    leg: dict[str, float]
    round: dict[str, float]
    way: dict[str, float]


def account(program: Program, price: ledger.Prices) -> Account:
    """At these prices, over all rounds of the program's first lane."""
    rounds, legs = program.setting.rounds, program.setting.participants
    full, sent, way = torch.zeros(3), torch.zeros(3), torch.zeros(len(ledger.Way._fields))
    for samples, steps, clipped in _blocks(program, range(rounds)):
        full = _sums(ledger.step(price, torch.tensor([program.setting.batch_size]), clipped[:1].flatten()))
        sent = sent + _sums(ledger.round_(price, samples[:1], steps[:1], clipped[:1]))
        way = way + _sums(ledger.way(price, samples[:1], steps[:1], clipped[:1]))

    def named(counts: Tensor) -> dict[str, float]:
        return dict(zip(ledger.Way._fields, counts.tolist(), strict=False))  # a way begins as traffic does

    return Account(named(full), named(sent / (rounds * legs)), named(sent / rounds), named(way / rounds))


def _sums(fields: tuple[Tensor, ...]) -> Tensor:
    return torch.stack([field.double().sum() for field in fields])


def _blocks(program: Program, rounds: range) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The work of some rounds, a block of them at a time."""
    size = max(1, LEGS // (len(program.seeds) * program.setting.participants))
    for first in range(rounds.start, rounds.stop, size):
        yield program.work(range(first, min(first + size, rounds.stop)))
