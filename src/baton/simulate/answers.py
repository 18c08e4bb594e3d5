"""Which test rows the final models of stored runs get right, row by row: for telling two of them apart."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from baton import datasets
from baton.nn.flops import flops
from baton.setting import Setting
from baton.simulate.arithmetic import arithmetic
from baton.simulate.program import Program
from baton.store import Store

MOST = 2e12  # operations: about a minute on two cores; what would take more is left out
LANES = 32  # models at once
ROWS = 4096  # answered at once


def right(settings: Sequence[Setting], store: Store) -> dict[str, NDArray[np.bool_]]:
    """Run id -> [n]. Left out: data without classes, a model a client, and what would take too long."""
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
    if program.algorithm.personal is not None or runs * count * flops(program.net.module, program.net.sample) > MOST:
        return {}
    each = [store.params(s.run_id) for s in settings]
    params = {name: torch.stack([own[name] for own in each]) for name in each[0]}
    pool, labels = program.clients.test_x.flatten(0, 1), program.clients.test_y.flatten()
    first = program.evaluate.of_lane.unsqueeze(1) * count  # [L, 1] of each lane's own test set
    parts = []
    for begin in range(0, count, ROWS):
        places = first + torch.arange(begin, min(count, begin + ROWS))
        parts.append(program.legs.outputs(params, pool, places).argmax(-1) == labels[places])
    answers = torch.cat(parts, 1).numpy()
    return {s.run_id: answers[lane] for lane, s in enumerate(settings)}
