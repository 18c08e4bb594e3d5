"""A visit: one client's leg, from its own samples and a small order. What a simulation does for many at once."""

from typing import NamedTuple

import torch
from torch import Tensor

from baton import algorithms, clients, datasets, legs, models, privacy
from baton.clients import Batches, Clients
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.lanes import Lanes, Params
from baton.legs.base import Legs, Step, Still, directed, inverse_of, shift_of
from baton.legs.private import TOLD, Private
from baton.nn import Net
from baton.privacy import Draw
from baton.seam import Leg
from baton.setting import Setting, changed


class Order(NamedTuple):
    """All that a leg depends on beside the client's own samples and what it keeps. Leaves have no lane axis."""

    model: Params
    client: int  # its number: the key of its draws
    seed: int
    round: int
    visit: int  # of this client, in this round, before
    local_steps: int  # 0: as epochs say
    batch_size: int
    lr: float
    clip: float = 0.0
    weight_decay: float = 0.0
    momentum: float = 0.0
    pull: float | None = None
    anchor: Params | None = None
    shift: Params | None = None
    sent: Params = {}  # noqa: RUF012
    attempt: int = 0  # how often this leg was tried before
    still: bool = False  # all gradients are taken where the leg starts
    stiff: Params | None = None
    void: bool = False  # whether the last round that the client took part in was aborted
    epochs: int = 0  # passes over the client's samples, in place of steps


class Answer(NamedTuple):
    """What comes back."""

    model: Params
    samples: int
    steps: int
    square: Params = {}  # noqa: RUF012 of a leg that stood still


class Own:
    """One client: its samples, and the means to train on them. It knows nobody else's."""

    def __init__(self, setting: Setting, data: Dataset, device: torch.device | None = None, threads: int = 1) -> None:
        """data: its own samples only, less those it holds back, as x and y; test samples are not looked at."""
        device = device or torch.device("cpu")
        self.setting, self.data = setting, data
        dtype = getattr(torch, setting.dtype)
        self.net = net_of(setting, data, dtype, device)
        self.clients = alone(data, setting, dtype, device)
        self.algorithm = algorithms.build(setting.algorithm, dtype, device)
        self.dp = privacy.build([setting.dp], dtype, device)
        split = self.algorithm.split
        self.passes = split.passes if split else 0
        elastic = self.algorithm.elastic
        self.legs = legs.choose(self.net, data, self.clients, True, "fp32", threads, elastic=elastic)

    def keeps(self, model: Params) -> Params:
        """What it keeps before its first visit; model: the first one, without lane axis."""
        local = self.algorithm.local
        return without_lane(local.init(with_lane(model))) if local else {}


def net_of(setting: Setting, data: Dataset, dtype: torch.dtype, device: torch.device) -> Net:
    """The setting's model, for samples like these."""
    build = models.factory(setting.model, tuple(data.x.shape[1:]), data.classes, datasets.tells_numbers(data))
    return Net(build, dtype, device, datasets.prepared(data, data.x[:1], dtype))


def alone(data: Dataset, setting: Setting, dtype: torch.dtype, device: torch.device) -> Clients:
    """A table of one client. Steps are b samples wide, as they are where others hold more."""
    count = len(data.y)
    x = data.x.to(device) if data.x.dtype == torch.uint8 else data.x.to(device, dtype)
    nothing = torch.zeros(1, dtype=torch.int64, device=device)
    span = torch.tensor([[0, count]], device=device)
    places = torch.arange(max(1, count), device=device)
    widest = max(count, setting.batch_size)
    tests = data.test_x.unsqueeze(0), data.test_y.unsqueeze(0)
    weight = None if data.weight is None else data.weight.to(device, dtype)
    table = Clients(x, data.y.to(device), places, span, count, widest, *tests, nothing, weight)
    return clients.balanced(table) if setting.sampling == "balanced" and count else table


class Drawer:
    """What a client keeps on its own: as it was before the last round that wrote it too, which may yet be aborted."""

    def __init__(self, first: Params) -> None:
        self._versions = [(-1, first)]  # (the round that wrote it, what is kept)

    def now(self, round: int, void: bool) -> Params:
        """What counts in a round; void: what the last one wrote does not."""
        if void and self._versions[-1][0] != round:
            self._versions.pop()
        return self._versions[-1][1]

    def put(self, round: int, kept: Params) -> None:
        """Written in this round."""
        before = [version for version in self._versions if version[0] != round]
        self._versions = [*before[-1:], (round, kept)]


class Prepared(NamedTuple):
    """A leg that may begin: one lane, one client."""

    batches: Batches
    step: Step
    held: Tensor  # [1] samples
    steps: Tensor  # [1] that will be taken


def prepare(own: Own, order: Order, shift: Params | None = None) -> Prepared:
    """The minibatches and the step of an order; shift [1, ...]: in place of the order's own."""
    dtype = own.net.dtype

    def number(value: float) -> Tensor:
        return torch.tensor([value], dtype=dtype)

    length = {"local_steps": order.local_steps, "epochs": order.epochs, "batch_size": order.batch_size}
    setting, passes = changed(own.setting, **length), order.epochs or own.passes
    seed, client = torch.tensor([order.seed]), torch.tensor([order.client])
    numbers = number(order.lr), number(order.clip), number(order.weight_decay), number(order.momentum)
    lanes = Lanes(seed, *numbers, torch.zeros(1, dtype=torch.int64))
    key = clients.visit(seed, order.round, client, order.visit)
    batches = clients.batches(own.clients, lanes, torch.zeros_like(client), key, setting, passes)
    held = own.clients.start[:, 1]
    step = Step(
        torch.where(held > 0, lanes.lr, 0.0),
        lanes.clip,
        lanes.weight_decay,
        lanes.momentum if order.momentum else None,
        None if order.pull is None else number(order.pull),
        None if order.anchor is None else with_lane(order.anchor),
        shift or (None if order.shift is None else with_lane(order.shift)),
        passes > 0,
        None if order.stiff is None else with_lane(order.stiff),
    )
    return Prepared(batches, step, held, clients.taken(held, setting, passes)[1])


def visit(own: Own, order: Order, kept: Params, draw: Draw | None = None) -> tuple[Answer, Params]:
    """One leg, and what the client keeps afterwards. Pure: nothing is written, here or there.

    draw: the noise of its protection, where it has one; None: a simulation's, which is no secret.
    """
    local, start, legs = own.algorithm.local, with_lane(order.model), _legs(own, order, draw)
    if local is None:
        leg = prepare(own, order)
        end = legs.train(start, leg.step, leg.batches)
        return Answer(without_lane(end), int(leg.held), int(leg.steps), _square(legs)), kept
    mine, sent = ({name: leaf[None, None].clone() for name, leaf in x.items()} for x in (kept, order.sent))
    shift = {name: leaf.squeeze(1) for name, leaf in shift_of(local, mine, sent).items()}
    if order.shift is not None:
        shift = {name: leaf + order.shift[name] for name, leaf in shift.items()}
    leg = prepare(own, order, shift)
    reach = clients.reached(leg.steps.to(own.net.dtype), None if order.still else leg.step.momentum)
    lr = torch.full((1, 1), order.lr, dtype=own.net.dtype)
    end, direction = directed(legs, start, leg.step, leg.batches, inverse_of(reach, lr[0]))
    answer = Answer(without_lane(end), int(leg.held), int(leg.steps), _square(legs))
    if not answer.steps or not order.lr:
        return answer, kept
    began, ended, told = ({name: leaf.unsqueeze(1) for name, leaf in x.items()} for x in (start, end, direction))
    new = local.end(mine, sent, Leg(began, ended, told, reach.view(1, 1), lr))
    return answer, {name: leaf[0, 0] for name, leaf in new.items()}


def _legs(own: Own, order: Order, draw: Draw | None) -> Legs:
    """How an order is trained, and told."""
    if own.dp is None:
        return Still(own.legs) if order.still else own.legs
    if order.still:
        raise BadInput(TOLD)
    seed, client = torch.tensor([order.seed]), torch.tensor([order.client])
    drawn = draw or privacy.keyed(clients.visit(seed, order.round, client, order.visit))
    return Private(own.legs, own.dp, drawn)


def _square(legs: Legs) -> Params:
    return without_lane(legs.square) if isinstance(legs, Still) else {}


def with_lane(x: Params) -> Params:
    """One lane."""
    return {name: leaf.unsqueeze(0) for name, leaf in x.items()}


def without_lane(x: Params) -> Params:
    """That lane's."""
    return {name: leaf.squeeze(0) for name, leaf in x.items()}
