"""What a server that is not honest may send to a site, made of orders that an honest one gave."""

from pathlib import Path

import torch

from baton.deploy.messages import Message, Refused, Train, Trained
from baton.deploy.policy import Policy
from baton.deploy.site import Samples, Site
from baton.deploy.wire import packed, unpacked
from baton.lanes import Params
from baton.setting import Setting
from baton.sites.visit import Order
from baton.store import Store
from federation import Field, setting, train

NOISE = "gaussian:clip=1,noise=5"


def rows(count: int = 40, columns: int = 4) -> Samples:
    """Some rows of two classes; every row differs from all others."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(count, columns, generator=g), torch.arange(count) % 2
    return Samples(x, y, x[:20], y[:20])


def plain(algorithm: str = "parallel", **more: object) -> Setting:
    """A run of two sites that hold such rows."""
    base = {"dataset": "sites:of=t,features=4,classes=2", "partition": "natural", "model": "logistic", "clients": 2}
    numbers = {"local_steps": 5, "batch_size": 20, "lr": 0.1, "rounds": 9, "failures": "real"}
    return Setting(**{**base, **numbers, "algorithm": algorithm, **more})


def site(folder: Path, held: Samples | None = None, **policy: object) -> Site:
    folder.mkdir(parents=True, exist_ok=True)
    return Site(held or rows(), Policy(**policy), folder)


def zeros(s: Setting) -> Params:
    """A model of zeros for `plain`."""
    from baton.deploy.like import like
    from baton.sites.visit import Own

    return {n: torch.zeros(shape) for n, shape in Own(s, like(s)).net.sizes().items()}


def order(s: Setting, **more: object) -> Order:
    """The order that this run's own server would give to its first client in round 0."""
    step = s.local_steps, s.batch_size, s.lr, s.clip, s.weight_decay, s.momentum
    return Order(zeros(s), 0, s.seed, 0, 0, *step, epochs=s.epochs)._replace(**more)


def ask(to: Site, message: Message) -> Message:
    return unpacked(to.handle(packed(message, 60.0)))


def told(to: Site, message: Train) -> Params:
    """The model that a leg ends with."""
    said = ask(to, message)
    assert isinstance(said, Trained), said
    return said.answer.model


def heard(spec: str, folder: Path, **more: object) -> tuple[list[Train], Field]:
    """All legs that an honest server asks of the first site, and its federation."""
    s = setting(spec, clients=2, participants=2, rounds=4, eval_every=4, **more)
    field, found = Field(s, folder / "field"), list[Train]()
    honest = field.call

    def call(name: str, frame: bytes, seconds: float) -> bytes:
        message = unpacked(frame)
        if name == "site-0" and isinstance(message, Train):
            found.append(message)
        return honest(name, frame, seconds)

    field.call = call  # type: ignore[method-assign]
    train(s, field, Store(folder / "runs"))
    return found, field


def terms(order: Order) -> tuple[object, float | None]:
    """What tells the methods of a switch apart."""
    return order.sent.keys(), order.pull


def asked_twice(spec: str, folder: Path) -> tuple[Params, Message, Params, int, int]:
    """One order after one name, asked twice; in between that name is given to another order.

    (the first answer, what the other order got, the second answer, lines of the books before and after it)
    """
    legs, field = heard(spec, folder, dp=NOISE)
    first = legs[0]
    last = [each for each in legs if terms(each.order) == terms(first.order)][-1]
    (folder / "attacked").mkdir()
    at = Site(field.held["site-0"], field.policy, folder / "attacked")
    told(at, first)
    target = Train(first.setting, "b", first.leg, last.order._replace(round=first.order.round))
    one = told(at, target)
    moved = first.order._replace(model={n: x + 1 for n, x in first.order.model.items()})
    other = ask(at, first._replace(order=moved))
    assert isinstance(other, Trained | Refused)
    before = len(at.releases.lines)
    two = told(at, target._replace(leg="c"))
    return one, other, two, before, len(at.releases.lines)


def apart(one: Params, two: Params) -> float:
    """The distance between two models."""
    return float(torch.cat([(one[n] - two[n]).flatten() for n in one]).norm())
