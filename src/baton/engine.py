"""The loop: schedule -> round -> evaluate, for all lanes of one program at once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import algorithms, clients, datasets, models
from baton.algorithms.base import State
from baton.datasets import Dataset
from baton.evaluate import Evaluator, Values
from baton.lanes import Lanes, Params, finite, where
from baton.leg import gradient, leg
from baton.names import bind
from baton.nn import Net
from baton.schedules import SCHEDULES
from baton.setting import Setting


def net_of(setting: Setting, data: Dataset, device: torch.device) -> Net:
    """The setting's model for this data."""
    dtype = getattr(torch, setting.dtype)
    build = models.factory(setting.model, tuple(data.x.shape[1:]), data.classes)
    return Net(build, dtype, device, datasets.prepared(data, data.x[:1], dtype))


class Program:
    """Everything that lanes of one shape_key share, and what sets them apart."""

    def __init__(self, settings: Sequence[Setting], device: torch.device) -> None:
        self.setting, self.seeds = settings[0], [s.seed for s in settings]
        dtype = getattr(torch, self.setting.dtype)
        names = dict.fromkeys(s.dataset for s in settings)
        sets = [datasets.load(name, self.setting.clients) for name in names]
        data = next((d for d in sets if d.augment is not None), sets[0])  # what one lane draws anew, all run through
        self.clients, partition = clients.build(settings, dtype, device)
        self.net = net_of(self.setting, data, device)
        self.algorithm = algorithms.build(self.setting.algorithm)
        _, self._schedule, self._schedule_options = bind("schedule", self.setting.schedule, SCHEDULES)

        def column(field: str) -> Tensor:
            return torch.tensor([getattr(s, field) for s in settings], dtype=dtype, device=device)

        seed = torch.tensor(self.seeds, dtype=torch.int64, device=device)
        self.lanes = Lanes(seed, column("lr"), column("clip"), column("weight_decay"), partition)
        self.gradient = gradient(self.net, data)
        optima = [d.optimum for d in sets if d.optimum is not None]
        self.evaluate = Evaluator(self.net, data, self.clients, self.lanes, optima)

    def order(self, round: int) -> Tensor:
        """The participants of a round: [L, S]."""
        s = self.setting
        order: Tensor = self._schedule(self.lanes.seed, round, s.clients, s.participants, **self._schedule_options)
        return order.to(self.lanes.seed.device)  # a schedule of the user's own need not know it


class Simulation:
    """Sites in this process: the clients of one round."""

    def __init__(self, program: Program, round: int) -> None:
        self.program, self.round = program, round

    def train(self, x: Params, client: Tensor) -> Params:
        """One leg a lane: client [L]."""
        return self._legs(x, client, self.program.lanes)

    def train_all(self, x: Params, order: Tensor) -> Params:
        """All participants' legs, S folded into the lane axis: order [L, S] -> [L, S, ...]."""
        count = order.shape[1]
        copies = {name: leaf.repeat_interleave(count, 0) for name, leaf in x.items()}
        trained = self._legs(copies, order.flatten(), self.program.lanes.repeat(count))
        return {name: leaf.view(*order.shape, *leaf.shape[1:]) for name, leaf in trained.items()}

    def sizes(self, order: Tensor) -> Tensor:
        """Samples at each client: [L, S]."""
        return clients.spans(self.program.clients, self.program.lanes, order)[1]

    def _legs(self, x: Params, client: Tensor, lanes: Lanes) -> Params:
        p = self.program
        return leg(p.gradient, p.clients, lanes, clients.batches(p.clients, lanes, self.round, client, p.setting), x)


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
    for round in range(at.round, program.setting.rounds):
        order = program.order(round)
        state = program.algorithm.round(at.state, order, Simulation(program, round))
        sound = finite(state) & (at.diverged < 0)
        diverged = torch.where(sound | (at.diverged >= 0), at.diverged, round + 1)
        at = _measure(program, Snapshot(round + 1, where(sound, state, at.state), diverged, at.history), order)
        yield at


def _measure(program: Program, at: Snapshot, order: Tensor) -> Snapshot:
    params = program.algorithm.model(at.state)
    found: Values = program.evaluate.exact(params)
    if at.round % program.setting.eval_every == 0 or at.round == program.setting.rounds:
        found |= program.evaluate(params, at.round, order)
    for metric, values in found.items():
        at.history.setdefault(metric, []).append((at.round, values))
    return at
