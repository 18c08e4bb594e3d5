"""The loop: schedule -> round -> evaluate, for all lanes of one program at once."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from baton.seam import State
from baton.simulate import kept
from baton.simulate.books import traffic
from baton.simulate.evaluate import Values
from baton.simulate.program import Program
from baton.simulate.rounds import ahead, captured
from baton.store import History, Snapshot
from baton.store.columns import BYTES

__all__ = ["Program", "Snapshot", "advance", "first", "start"]


def first(program: Program) -> Snapshot:
    """All drawers before the first round."""
    x, algorithm = program.net.init(program.seeds), program.algorithm
    now = program.now(0, program.rate(0))._replace(drawn=program.order(0))
    server = algorithm.server(x, now) if algorithm.server else {}
    own = algorithm.local.init(x) if algorithm.local else {}
    tables = kept.table(own, now.clients, program.layout(own))
    return Snapshot(0, State(x, server), tables, torch.full_like(program.lanes.seed, -1), History())


def start(program: Program) -> Snapshot:
    """Before the first round, measured."""
    return _measure(program, first(program), program.order(0))


def advance(program: Program, at: Snapshot) -> Iterator[Snapshot]:
    """One snapshot a round, to the last. A lane that leaves the finite numbers keeps its last finite state.

    What clients keep is written in place: a snapshot's is the live table, good until the next one is asked for.
    """
    at = at._replace(state=at.state._replace(model={n: at.state.model[n] for n in program.sizes}))  # a file sorts them
    tables = kept.laid_out(at.clients, program.layout({n: leaf[:, 0] for n, leaf in at.clients.items()}))
    train = captured(program) if program.lanes.seed.is_cuda else ahead(program)
    for round in range(at.round, program.setting.rounds):
        order, state, diverged = train(round, at.state, tables, at.diverged)
        at = _measure(program, Snapshot(round + 1, state, tables, diverged, at.history), order)
        yield at


def _measure(program: Program, at: Snapshot, order: Tensor) -> Snapshot:
    found: Values = program.evaluate.exact(at.state.model)
    if at.round % program.setting.eval_every == 0 or at.round == program.setting.rounds:
        own = program.algorithm.personal
        found |= program.evaluate(at.state.model, at.round, order, own(at.state) if own else None)
        lost = torch.from_numpy(np.isnan(found["test_loss"])).to(at.diverged.device) & (at.diverged < 0)
        at = at._replace(diverged=at.diverged.masked_fill(lost, at.round))  # finite numbers whose outputs are none
    at = at._replace(history=at.history.then(at.round, found))
    if at.round and program.failing.share and program.algorithm.order is not None:
        return at._replace(history=_booked_now(program, at, order))
    return at._replace(history=_booked(program, at)) if "test_loss" in found else at


def _booked(program: Program, at: Snapshot) -> History:
    """With bytes so far, at every evaluation."""
    history = at.history
    known = BYTES[0] in history
    last = history.last(BYTES[0])[0] if known else -1
    sent = {column: history.last(column)[1] if known else np.zeros(len(at.diverged)) for column in BYTES}
    for round, _ in history.after("test_loss", last):
        since = traffic(program, range(max(last, 0), round))
        sent = {column: sent[column] + since[column] for column in BYTES}
        history, last = history.then(round, sent), round
    return history


def _booked_now(program: Program, at: Snapshot, order: Tensor) -> History:
    """With bytes so far, of a round whose order [L, S] the algorithm chose."""
    since = traffic(program, range(at.round - 1, at.round), order.unsqueeze(1))
    return at.history.then(at.round, {column: at.history.last(column)[1] + since[column] for column in BYTES})
