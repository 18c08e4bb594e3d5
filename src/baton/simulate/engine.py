"""The loop: schedule -> round -> evaluate, for all lanes of one program at once."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton.algorithms.base import State
from baton.ledger import COLUMNS
from baton.ledger.books import traffic
from baton.simulate.evaluate import Values
from baton.simulate.program import Program
from baton.simulate.rounds import ahead, captured

__all__ = ["Program", "Snapshot", "advance", "start"]


class Snapshot(NamedTuple):
    """All lanes after some rounds: enough to go on from, since no draw keeps state."""

    round: int
    state: State
    diverged: Tensor  # [L] the round that left the finite numbers, -1 while there
    history: dict[str, list[tuple[int, NDArray[np.float64]]]]  # metric -> [(round, [L])]


def start(program: Program) -> Snapshot:
    """Before the first round."""
    params = program.net.init(program.seeds)
    diverged = torch.full_like(program.lanes.seed, -1)
    snapshot = Snapshot(0, program.algorithm.init(params), diverged, {})
    return _measure(program, snapshot, program.order(0))


def advance(program: Program, at: Snapshot) -> Iterator[Snapshot]:
    """One snapshot a round, to the last. A lane that leaves the finite numbers keeps its last finite state."""
    at = at._replace(history={metric: list(series) for metric, series in at.history.items()})
    train = captured(program) if program.lanes.seed.is_cuda else ahead(program)
    for round in range(at.round, program.setting.rounds):
        order, state, diverged = train(round, at.state, at.diverged)
        at = _measure(program, Snapshot(round + 1, state, diverged, at.history), order)
        yield at


def _measure(program: Program, at: Snapshot, order: Tensor) -> Snapshot:
    params = program.algorithm.model(at.state)
    found: Values = program.evaluate.exact(params)
    if at.round % program.setting.eval_every == 0 or at.round == program.setting.rounds:
        found |= program.evaluate(params, at.round, order)
    for metric, values in found.items():
        at.history.setdefault(metric, []).append((at.round, values))
    if "test_loss" in found:
        _book(program, at)
    return at


def _book(program: Program, at: Snapshot) -> None:
    """Bytes so far, at every evaluation; where a store's beginning of the run has none, from its first round on."""
    known = at.history.get(COLUMNS[0], [])
    sound = (at.diverged < 0).cpu().numpy()
    if not known or np.isnan(known[-1][1][sound]).any():
        at.history.update({column: [] for column in COLUMNS})
        known = []
    last = known[-1][0] if known else 0
    for round in [r for r, _ in at.history["test_loss"] if r > last or not known]:
        for column, sent in traffic(program, range(last, round)).items():
            series = at.history[column]
            series.append((round, sent + (series[-1][1] if series else 0.0)))
        last = round
