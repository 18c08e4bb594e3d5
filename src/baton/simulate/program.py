"""What lanes of one shape_key share, and what sets them apart."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from baton import algorithms, clients, datasets, ledger, legs, models
from baton.algorithms import Algorithm
from baton.clients import Batches
from baton.datasets import Dataset
from baton.lanes import Lanes, Params
from baton.names import bind
from baton.nn import Net
from baton.nn.cut import Sides, sides
from baton.schedules import SCHEDULES
from baton.setting import Setting
from baton.simulate.evaluate import Evaluator


def net_of(setting: Setting, data: Dataset, device: torch.device) -> Net:
    """The setting's model for this data."""
    dtype = getattr(torch, setting.dtype)
    build = models.factory(setting.model, tuple(data.x.shape[1:]), data.classes)
    return Net(build, dtype, device, datasets.prepared(data, data.x[:1], dtype))


def sides_of(algorithm: Algorithm, net: Net) -> Sides | None:
    """The model as the algorithm cuts it; None where it does not."""
    return sides(net, algorithm.split.cut, algorithm.split.head) if algorithm.split else None


class Program:
    """Everything that lanes of one shape_key share, and what sets them apart."""

    def __init__(
        self, settings: Sequence[Setting], device: torch.device, precision: str = "fp32", threads: int = 1
    ) -> None:
        """precision: of products on a GPU; threads: cores that lanes may be spread over on a CPU."""
        self.setting, self.seeds = settings[0], [s.seed for s in settings]
        dtype = getattr(torch, self.setting.dtype)
        names = dict.fromkeys(s.dataset for s in settings)
        sets = [datasets.load(name, self.setting.clients) for name in names]
        data = next((d for d in sets if d.augment is not None), sets[0])  # what one lane draws anew, all run through
        self.clients, partition = clients.build(settings, dtype, device)
        self.net = net_of(self.setting, data, device)
        self.algorithm = algorithms.build(self.setting.algorithm)
        self.sides = sides_of(self.algorithm, self.net)
        self.passes = self.algorithm.split.passes if self.algorithm.split else 0
        name, self._schedule, self._schedule_options = bind("schedule", self.setting.schedule, SCHEDULES)
        self._own_schedule = name in SCHEDULES

        def column(field: str) -> Tensor:
            return torch.tensor([getattr(s, field) for s in settings], dtype=dtype, device=device)

        seed = torch.tensor(self.seeds, dtype=torch.int64, device=device)
        self.lanes = Lanes(seed, column("lr"), column("clip"), column("weight_decay"), partition)
        clipped, form = any(s.clip > 0 for s in settings), self.algorithm.split
        self.legs = legs.choose(self.net, data, self.clients, clipped, precision, threads, form, self.sides)
        optima = [d.optimum for d in sets if d.optimum is not None]
        self.evaluate = Evaluator(self.legs, data, self.clients, self.lanes, optima)

    def order(self, round: int) -> Tensor:
        """The participants of a round: [L, S]."""
        s = self.setting
        order: Tensor = self._schedule(self.lanes.seed, round, s.clients, s.participants, **self._schedule_options)
        return order.to(self.lanes.seed.device)  # a schedule of the user's own need not know it

    def orders(self, rounds: range) -> Tensor:
        """The participants of some rounds: [L, rounds, S]. The registered schedules take them all at once."""
        if not self._own_schedule:
            return torch.stack([self.order(round) for round in rounds], 1)
        s, count = self.setting, len(rounds)
        number = torch.tensor(rounds, device=self.lanes.seed.device).repeat(len(self.seeds))
        seed = self.lanes.seed.repeat_interleave(count)
        order: Tensor = self._schedule(seed, number, s.clients, s.participants, **self._schedule_options)
        return order.view(-1, count, s.participants)

    def apart(self, x: Params) -> tuple[Params, Params]:
        """A model as (the clients' side, the server's): all is the clients' where it is not cut."""
        return self.sides.split(x) if self.sides else (x, {})

    @cached_property
    def prices(self) -> ledger.Prices:
        """What its legs cost."""
        return ledger.prices(self.algorithm, self.net, self.sides)

    def work(self, rounds: range) -> tuple[Tensor, Tensor, Tensor]:
        """(samples, steps [L, rounds, S], 1 in lanes that clip [L, 1, 1]) of all legs of some rounds."""
        order = self.orders(rounds)
        count = clients.spans(self.clients, self.lanes, order.flatten(1))[1].view(order.shape)
        clipped = (self.lanes.clip > 0).to(count.dtype).view(-1, 1, 1)
        return *clients.taken(count, self.setting, self.passes), clipped

    def draw(self, round: int | Tensor, order: Tensor) -> list[Batches]:
        """The minibatches of participants [L, S], a leg each; round: one, or a tensor of one a leg [S]."""
        lanes, count = order.shape
        tiled = Lanes(*(field.repeat(count) for field in self.lanes))
        number = round.repeat_interleave(lanes) if isinstance(round, Tensor) and round.dim() else round
        drawn = clients.batches(self.clients, tiled, number, order.t().flatten(), self.setting, self.passes)
        legs = zip(*(field.view(count, lanes, *field.shape[1:]).unbind(0) for field in drawn), strict=True)
        return [Batches(*leg) for leg in legs]
