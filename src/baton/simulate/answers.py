"""Which test rows the final models of stored runs get right, row by row: for telling two of them apart."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from baton import datasets
from baton.metrics import predicted
from baton.nn.flops import flops
from baton.seam import State
from baton.setting import Setting
from baton.simulate import personal
from baton.simulate.arithmetic import arithmetic
from baton.simulate.program import Program
from baton.store import Store

MOST = 2e12  # operations: about a minute on two cores; what would take more is left out
LANES = 32  # models at once
ROWS = 4096  # answered at once


def right(settings: Sequence[Setting], store: Store) -> dict[str, NDArray[np.bool_]]:
    """Run id -> [n]. Left out: data without classes, models of clients' own without rows of their own; what is slow."""
    found: dict[str, NDArray[np.bool_]] = {}
    shapes: dict[str, list[Setting]] = {}
    for s in {s.run_id: s for s in settings}.values():
        shapes.setdefault(s.shape_key, []).append(s)
    with arithmetic("fp32"):
        for alike in shapes.values():
            for at in range(0, len(alike), LANES):
                found |= _answers(alike[at : at + LANES], len(settings), store)
    return found


def _answers(settings: Sequence[Setting], runs: int, store: Store) -> dict[str, NDArray[np.bool_]]:
    """Lanes of one program; runs: how many there are in all."""
    one = settings[0]
    if not datasets.load(one.dataset, one.clients).classes:
        return {}
    program = Program(settings, torch.device("cpu"))
    count = program.clients.test_y.shape[1]
    if runs * count * flops(program.net.module, program.net.sample) > MOST:
        return {}
    if program.algorithm.personal is not None:
        return _personal(program, store)
    each = [store.params(s.run_id) for s in settings]
    params = {name: torch.stack([own[name] for own in each]) for name in each[0]}
    pool, labels = program.clients.test_x.flatten(0, 1), program.clients.test_y.flatten()
    first = program.evaluate.of_lane.unsqueeze(1) * count  # [L, 1] of each lane's own test set
    parts = []
    for begin in range(0, count, ROWS):
        places = first + torch.arange(begin, min(count, begin + ROWS))
        parts.append(predicted(program.legs.outputs(params, pool, places)) == labels[places])
    answers = torch.cat(parts, 1).numpy()
    return {s.run_id: answers[lane] for lane, s in enumerate(settings)}


def _personal(program: Program, store: Store) -> dict[str, NDArray[np.bool_]]:
    """The same where each client uses a model of its own: it answers its own rows; every row has to be someone's."""
    own, asked = program.algorithm.personal, program.evaluate.asked
    if own is None or asked is None or asked.owner is None:
        return {}
    states = [store.state(s.run_id) for s in program.settings]
    stacked = State(*({n: torch.stack([each[i][n] for each in states]) for n in states[0][i]} for i in range(2)))
    made, known = personal.answers(program.legs, own(stacked), program.clients, asked.owner, asked.of_lane)
    if not bool(known.all()):
        return {}
    right = (predicted(made) == asked.labels[asked.of_lane]).numpy()
    return {s.run_id: right[lane] for lane, s in enumerate(program.settings)}
