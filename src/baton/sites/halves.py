"""A leg in split form between two machines: the client's half, the server's, and the messages between them."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from baton import clients, rng
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.lanes import Params, norm
from baton.legs.base import Step
from baton.legs.plain import begun, sgd
from baton.legs.split import Client, Last, Middle
from baton.nn import Net
from baton.nn.cut import Sides, sides
from baton.seam import Split
from baton.sites.visit import Answer, Order, Own, prepare, with_lane, without_lane

T = TypeVar("T")


class Begin(NamedTuple):
    """Server to client: a leg begins. Answered by its number of steps."""

    order: Order  # its model is the client's side


class Forward(NamedTuple):
    """The next step. Answered by Up."""


class Up(NamedTuple):
    """Client to server."""

    smashed: Tensor
    labels: Tensor | None  # None: they stay at the client
    weight: Tensor


class Features(NamedTuple):
    """Server to client, where labels stay there. Answered by the loss's slope at them."""

    features: Tensor


class Backward(NamedTuple):
    """Server to client: the loss's slope at the smashed data. Answered by the norm of the client's gradient."""

    slope: Tensor
    norm: Tensor  # of the server's gradient


class End(NamedTuple):
    """Answered by Answer."""


Message = Begin | Forward | Features | Backward | End


class ClientHalf:
    """Holds the samples and its side of the model; answers one message after another."""

    def __init__(self, own: Own) -> None:
        form = own.algorithm.split
        assert form is not None
        self.own, self.joint = own, form.clip == "joint"
        self.client = Client(own.net, own.data, sides(own.net, form.cut, form.head), form.noise, 1)

    def answer(self, message: Message) -> object:
        """What is sent back."""
        match message:
            case Begin(order):
                return self._begin(order)
            case Forward():
                return self._forward()
            case Features(features):
                return self._turn(features)
            case Backward(slope, its):
                return self._backward(slope, its)
            case End():
                return Answer(without_lane(self.x), int(self.leg.held), int(self.leg.steps))

    def _begin(self, order: Order) -> int:
        self.x, self.leg, self.k = with_lane(order.model), prepare(self.own, order), 0
        self.velocity: Params | None = None
        self.step: Step = begun(self.leg.step, self.x)
        return int(self.leg.steps)

    def _batch(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(key, samples, labels, weight) of this step."""
        drawn, table = self.leg.batches, self.own.clients
        at = drawn.places[:, self.k]
        return drawn.key[:, self.k], table.x[at], table.y[at], drawn.weight[:, self.k]

    def _forward(self) -> Up:
        key, x, y, weight = self._batch()
        self.last = Params()
        smashed = self.client.forward(self.client.front.of(self.x), key, x)
        return Up(smashed, None if self.client.head else y, weight)

    def _turn(self, features: Tensor) -> Tensor:
        head = self.client.head
        assert head is not None
        key, _, y, weight = self._batch()
        self.last, slope = head(head.side.of(self.x), key, features, y, weight)
        return slope

    def _backward(self, slope: Tensor, its: Tensor) -> Tensor:
        key, x, _, _ = self._batch()
        own = self.client.backward(self.client.front.of(self.x), key, x, slope) | self.last
        mine = norm(own)
        self.x, self.velocity = sgd(
            self.x, own, self.step, torch.hypot(mine, its) if self.joint else mine, self.velocity
        )
        self.k += 1
        return mine


def leg(
    net: Net,
    data: Dataset,
    form: Split,
    cut: Sides,
    order: Order,
    ask: Callable[[Message], object],
    *,
    most: int | None = None,
) -> Answer:
    """The server's half of one leg. The order's model is the whole one, and so is the answer's.

    most: steps that the client may say it will take; None: whatever it says. What it sends is held to the leg's shapes.
    """
    if order.still or order.stiff is not None:
        raise BadInput("algorithm: a leg in split form takes its steps one after another; whole legs are right")
    client, server = cut.split(with_lane(order.model))
    mine = order._replace(model=without_lane(client), anchor=_of(order.anchor, client), shift=_of(order.shift, client))
    part = Middle(net, cut.back, 1) if cut.head else Last(net, data, cut.back, 1)
    steps = _told(ask(Begin(mine)), int)
    if steps < 0 or (most is not None and steps > most):
        raise ValueError(f"{steps} steps; 0 to {most} is right")
    step, velocity, key = begun(_step(order, server, net.dtype), server), None, _key(order)
    for k in range(steps):
        up, own = _told(ask(Forward()), Up), rng.bits(key, rng.DROPOUT, k)
        _check_up(up, cut, order, data.classes, net.dtype)
        if isinstance(part, Last):
            assert up.labels is not None
            its = part(server, own, up.smashed, up.labels, up.weight)
        else:
            features = part.forward(part.side.of(server), own, up.smashed)
            slope = _told(ask(Features(features)), Tensor)
            _check_like(slope, features)
            its = part.backward(server, own, up.smashed, slope)
        size = norm(its.params)
        other = _told(ask(Backward(its.input, size)), Tensor)
        _check_like(other, size)
        both = torch.hypot(other, size) if form.clip == "joint" else size
        server, velocity = sgd(server, its.params, step, both, velocity)
    answer = _told(ask(End()), Answer)
    made = answer.model | without_lane(server)
    return answer._replace(model={name: made[name] for name in order.model})


def _key(order: Order) -> Tensor:
    """What a leg's steps draw with, on either side: [1]."""
    return clients.visit(torch.tensor([order.seed]), order.round, torch.tensor([order.client]), order.visit)


def _check_up(up: Up, cut: Sides, order: Order, classes: int, dtype: torch.dtype) -> None:
    """Raise ValueError unless a client's numbers are those of one batch of this leg."""
    batch = up.smashed.shape[:2]
    if up.smashed.dtype != dtype or up.smashed.shape != (*batch, *cut.front.shape):
        raise ValueError(f"smashed data of shape {tuple(up.smashed.shape)}; {cut.front.shape} a sample is right")
    if len(batch) < 2 or batch[0] != 1 or not 1 <= batch[1] <= order.batch_size:
        raise ValueError(f"{tuple(batch)} samples; at most {order.batch_size} is right")
    if up.weight.shape != batch or up.weight.dtype != dtype or not bool((up.weight >= 0).all()):
        raise ValueError("weights that are none")
    if up.labels is None:
        return
    labels = up.labels
    if labels.shape != batch or labels.dtype != torch.int64 or not bool(((labels >= 0) & (labels < classes)).all()):
        raise ValueError("labels that are none")


def _check_like(given: Tensor, wanted: Tensor) -> None:
    if given.shape != wanted.shape or given.dtype != wanted.dtype:
        raise ValueError(f"numbers of shape {tuple(given.shape)}; {tuple(wanted.shape)} is right")


def _step(order: Order, server: Params, dtype: torch.dtype) -> Step:
    def number(value: float | None) -> Tensor | None:
        return None if value is None else torch.tensor([value], dtype=dtype)

    lr, clip, decay = (torch.tensor([value], dtype=dtype) for value in (order.lr, order.clip, order.weight_decay))
    anchor, shift = (_of(given, server) for given in (order.anchor, order.shift))
    fixed = anchor and with_lane(anchor), shift and with_lane(shift)
    return Step(lr, clip, decay, number(order.momentum or None), number(order.pull), *fixed)


def _of(given: Params | None, side: Params) -> Params | None:
    return None if given is None else {name: given[name] for name in side}


def _told(answer: object, kind: type[T]) -> T:
    assert isinstance(answer, kind), answer
    return answer
