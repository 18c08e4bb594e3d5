"""One client in a process of its own: it holds its samples and what it keeps, and answers what comes through a pipe."""

from multiprocessing.connection import Connection
from typing import NamedTuple

import torch
from torch import Tensor

import processes
from baton import datasets
from baton.setting import Setting
from baton.sites.halves import ClientHalf
from baton.sites.visit import Drawer, Order, Own, visit


class Hold(NamedTuple):
    """The first message: what the client is, and all the samples it will ever see."""

    setting: str
    x: Tensor
    y: Tensor
    model: dict[str, Tensor]  # the first one: what it keeps at first follows from it


class Told(NamedTuple):
    """Asked at the end: what it keeps."""

    round: int
    void: bool


def serve(pipe: Connection) -> None:
    processes.begin()
    torch.set_num_threads(1)
    own: Own | None = None
    half: ClientHalf | None = None
    drawer = Drawer({})
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            return
        if isinstance(message, Hold):
            setting = Setting.from_json(message.setting)
            like = datasets.load(setting.dataset, setting.clients)  # how samples are read; its own samples come by pipe
            own = Own(setting, like._replace(x=message.x, y=message.y, test_x=message.x[:1], test_y=message.y[:1]))
            half = ClientHalf(own) if own.algorithm.split else None
            drawer = Drawer(own.keeps(message.model))
            pipe.send("ready")
        elif isinstance(message, Order):
            assert own is not None
            answer, kept = visit(own, message, drawer.now(message.round, message.void))
            drawer.put(message.round, kept)
            pipe.send(answer)
        elif isinstance(message, Told):
            pipe.send(drawer.now(message.round, message.void))
        else:
            assert half is not None
            pipe.send(half.answer(message))
