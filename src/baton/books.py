"""The ledger of a program's lanes: bytes over some rounds, and the mean way through a round.

Who takes part is drawn again: draws are pure, so nothing has to be carried from round to round or over a crash.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import ledger
from baton.program import Program

LEGS = 16384  # drawn in one go
Values = dict[str, NDArray[np.float64]]  # column -> [L]


def traffic(program: Program, rounds: range) -> Values:
    """What these rounds send, in bytes."""
    price, lanes = program.prices, len(program.seeds)
    total = torch.zeros(len(ledger.COLUMNS), lanes, dtype=torch.int64)
    if price.sample_up or price.sample_down or price.norm:
        for work in _blocks(program, rounds):
            total += torch.stack(ledger.round_(price, *work)).sum(-1).cpu()
    else:  # parameters only: every leg is the same
        none = torch.zeros(lanes, program.setting.participants, dtype=torch.int64)
        total += len(rounds) * torch.stack(ledger.round_(price, none, none, none))
    return dict(zip(ledger.COLUMNS, total.double().numpy(), strict=True))


def ways(program: Program) -> list[dict[str, float]]:
    """The longest way through a round of each lane, as a mean over all rounds of the run."""
    rounds = range(program.setting.rounds)
    total = sum(torch.stack(ledger.way(program.prices, *work)).double().sum(-1) for work in _blocks(program, rounds))
    assert isinstance(total, Tensor)
    return [dict(zip(ledger.Way._fields, lane, strict=True)) for lane in (total / len(rounds)).T.tolist()]


def _blocks(program: Program, rounds: range) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The work of some rounds, a block of them at a time."""
    size = max(1, LEGS // (len(program.seeds) * program.setting.participants))
    for first in range(rounds.start, rounds.stop, size):
        yield program.work(range(first, min(first + size, rounds.stop)))
