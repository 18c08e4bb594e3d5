"""The ledger of a program's lanes: bytes over some rounds, and the mean way through a round.

Who takes part is drawn again: draws are pure, so nothing has to be carried from round to round or over a crash.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import clients, failures, ledger
from baton.simulate.program import Program
from baton.store.columns import BYTES

LEGS = 16384  # drawn in one go
Values = dict[str, NDArray[np.float64]]  # column -> [L]


def traffic(program: Program, rounds: range, orders: Tensor | None = None) -> Values:
    """What these rounds send, in bytes; orders [L, rounds, S]: who took part, where the algorithm chose them itself."""
    total = torch.zeros(len(BYTES), len(program.seeds), dtype=torch.int64)
    for own, lanes in program.terms_by_lane:
        if own.price.by_the_leg and not program.failing.share:  # whoever trains
            one = torch.ones(len(lanes), program.setting.participants, dtype=torch.int64)
            for kind, count in own.kinds(rounds).items():
                sent = ledger.round_(own.price, own.trace[kind], ledger.Done(one, one, one[:, :1]))
                total[:, lanes] += count * torch.stack(sent)
        else:
            for kind, work in _blocks(program, rounds, own, orders):
                sent = ledger.round_(own.price, own.trace[kind], work)
                total[:, lanes] += torch.stack(sent).sum(-1).cpu()[:, lanes]
    return dict(zip(BYTES, total.double().numpy(), strict=True))


def ways(program: Program) -> list[dict[str, float]]:
    """The longest way through a round of each lane, as a mean over all rounds of the run."""
    rounds = range(program.setting.rounds)
    total = torch.zeros(len(ledger.Way._fields), len(program.seeds), dtype=torch.float64)
    for own, lanes in program.terms_by_lane:
        for kind, work in _blocks(program, rounds, own):
            total[:, lanes] += (
                torch.stack(ledger.way(own.price, own.trace[kind], work)).double().sum(-1).cpu()[:, lanes]
            )
    return [dict(zip(ledger.Way._fields, lane, strict=True)) for lane in (total / len(rounds)).T.tolist()]


class Account(NamedTuple):
    """Bytes of a full step, and of a leg and a round on average, by way (up, down, peer); and the mean way."""

    step: dict[str, float]
    leg: dict[str, float]
    round: dict[str, float]
    way: dict[str, float]


def account(program: Program, own: ledger.Terms) -> Account:
    """On these terms, over all rounds of the program's first lane."""
    rounds, legs = program.setting.rounds, 0
    full, sent, way = torch.zeros(3), torch.zeros(3), torch.zeros(len(ledger.Way._fields))
    for kind, every in _blocks(program, range(rounds), own):
        work = every.part(lambda x: x[:1])
        full = _sums(
            ledger.step(own.price, torch.tensor([program.setting.batch_size]), work.clipped[:1, :1, :1].flatten())
        )
        sent = sent + _sums(ledger.round_(own.price, own.trace[kind], work))
        way = way + _sums(ledger.way(own.price, own.trace[kind], work))
        legs += work.samples.shape[1] * sum(call.legs for call in own.trace[kind].calls)

    def named(counts: Tensor) -> dict[str, float]:
        return dict(zip(ledger.Way._fields, counts.tolist(), strict=False))  # a way begins as traffic does

    return Account(named(full), named(sent / max(1, legs)), named(sent / rounds), named(way / rounds))


def _sums(fields: tuple[Tensor, ...]) -> Tensor:
    return torch.stack([field.double().sum() for field in fields])


def _blocks(
    program: Program, rounds: range, own: ledger.Terms, orders: Tensor | None = None
) -> Iterator[tuple[object, ledger.Done]]:
    """The work of some rounds, a block of them at a time: (kind, [L, rounds, S])."""
    size = max(1, LEGS // (len(program.seeds) * program.setting.participants))
    for first in range(rounds.start, rounds.stop, size):
        numbers = range(first, min(first + size, rounds.stop))
        some = program.orders(numbers) if orders is None else orders[:, first - rounds.start :][:, : len(numbers)]
        work = _work(program, numbers, some)
        kinds = [own.kind(round) for round in numbers]
        for kind in dict.fromkeys(kinds):
            at = [i for i, each in enumerate(kinds) if each == kind]
            yield kind, work if len(at) == len(numbers) else work.part(partial(_of_rounds, at))


def _of_rounds(some: list[int], x: Tensor) -> Tensor:
    return x[:, some]


def _work(program: Program, rounds: range, order: Tensor) -> ledger.Done:
    """order [L, rounds, S]."""
    if program.algorithm.pools:
        order = torch.zeros_like(order[:, :, :1])
    clipped = (program.lanes.clip > 0).to(order.dtype).view(-1, 1, 1)
    if not program.failing.share:
        return ledger.Done(*_taken(program, order), clipped)
    seed, every = program.lanes.seed, program.setting.clients
    found = [
        failures.walked(program.failing, program.policy, seed, round, own, own, every, tuple(range(own.shape[1])))
        for round, own in zip(rounds, order.unbind(1), strict=True)
    ]
    who, tried, came = (torch.stack(field, 1) for field in zip(*found, strict=True))
    return ledger.Done(*_taken(program, who), clipped, tried, came.to(order.dtype))


def _taken(program: Program, who: Tensor) -> tuple[Tensor, Tensor]:
    """(samples, steps) of legs at clients [L, rounds, S]; of a pool's one leg [L, rounds, 1]."""
    if program.algorithm.pools:
        table, setting = program.pool
        count = clients.spans(table, program.lanes, who.flatten(1))[1].view(who.shape)
        return clients.taken(count, setting, setting.epochs)
    count = clients.spans(program.clients, program.lanes, who.flatten(1))[1].view(who.shape)
    return clients.taken(count, program.setting, program.passes)
