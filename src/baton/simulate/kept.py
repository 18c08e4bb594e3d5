"""What each client keeps from visit to visit: one table a leaf, [L, M, ...]; a round touches its participants' rows."""

from math import prod
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from baton.lanes import Params

ARENA = ""  # the one leaf of tables that lie in an arena


class Layout(Protocol):
    """How models lie in memory on a GPU: all leaves of a lane in one row."""

    def flat(self, params: Params) -> Tensor:
        """[N, P]: the leaves' own memory, where they lie so already."""

    def leaves(self, flat: Tensor) -> Params:
        """[N, ...]: views."""


class Table(dict[str, Tensor]):
    """The leaves [L, M, ...], and what they are views of: rows [L, M + 1, ...], the last one for what nobody wants."""

    def __init__(self, rows: Params, layout: Layout | None) -> None:
        self.rows, self.layout = rows, layout
        wide = rows
        if layout is not None:
            arena = rows[ARENA]
            wide = _unfold(layout.leaves(arena.flatten(0, 1)), arena.shape[:2])
        super().__init__({name: leaf[:, :-1] for name, leaf in wide.items()})


def table(first: Params, clients: int, layout: Layout | None = None) -> Table:
    """What every client keeps at first [L, ...], M times."""
    given = first if layout is None else {ARENA: layout.flat(first)}
    return Table({n: _rows(leaf, clients + 1) for n, leaf in given.items()}, layout)


def _rows(leaf: Tensor, count: int) -> Tensor:
    """[L, ...] so many times: [L, count, ...]. Zeros take no memory before they are written."""
    if not leaf.any():
        return _zeros(leaf, (len(leaf), count, *leaf.shape[1:]))
    return leaf.unsqueeze(1).repeat(1, count, *[1] * (leaf.dim() - 1))


def _zeros(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """On a CPU torch writes zeros, and so takes the memory; NumPy asks the system for pages that are zero."""
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    return torch.from_numpy(np.zeros(prod(shape) * like.itemsize, np.uint8)).view(like.dtype).view(shape)


def laid_out(given: Params, layout: Layout | None) -> Table:
    """Tables as they are written in rounds; those of a checkpoint are copied."""
    if isinstance(given, Table) or not given:
        return given if isinstance(given, Table) else Table({}, None)
    made = table({n: leaf[:, 0] for n, leaf in given.items()}, next(iter(given.values())).shape[1], layout)
    for name, leaf in given.items():
        made[name].copy_(leaf)
    return made


class Kept:
    """The tables during one round. Rows are written at its end, when it is known which lanes are sound."""

    def __init__(self, tables: Table, room: dict[tuple[str, int], Tensor] | None = None) -> None:
        """room: for copies of rows, used again from round to round; None: fresh."""
        self._rows, self._layout, self._room = tables.rows, tables.layout, room
        self._new: list[tuple[Tensor, Params]] = []  # clients [L, C], and what is to be written there: rows [N, ...]
        self._old: list[tuple[Tensor, Params]] = []  # clients whose rows were written already, and what they held

    def read(self, clients: Tensor, again: bool) -> Params:
        """A copy of the rows of clients [L, C]: [L, C, ...]; again: they may have been written in this round."""
        if again:
            self._write()
        call, at = len(self._new) + len(self._old), self._at(clients)
        return self._as_leaves({name: self._copy(name, call, at) for name in self._rows}, clients)

    def held(self, clients: Tensor) -> Params:
        """What the tables hold of clients [L, C]."""
        return self._as_leaves(self._take(clients), clients)

    def write(self, clients: Tensor, new: Params) -> None:
        """New rows [L, C, ...], at the end of the round."""
        flat = {name: leaf.flatten(0, 1) for name, leaf in new.items()}
        self._new.append((clients, flat if self._layout is None else {ARENA: self._layout.flat(flat)}))

    def settle(self, sound: Tensor | None) -> None:
        """The end of the round: lanes that are not sound [L] keep what they held when it began. None: all are."""
        if sound is not None:
            for clients, old in reversed(self._old):
                self._put(self._only(~sound, clients), old)
        for clients, new in self._new:
            self._put(clients if sound is None else self._only(sound, clients), new)
        self._new, self._old = [], []

    def _only(self, lanes: Tensor, clients: Tensor) -> Tensor:
        """These clients in some lanes, in the others nobody's row."""
        nobody = next(iter(self._rows.values())).shape[1] - 1
        return torch.where(lanes.unsqueeze(1), clients, nobody)

    def _write(self) -> None:
        """Now: a client is visited twice. What was there is kept, for lanes that turn out not to be sound."""
        for clients, new in self._new:
            self._old.append((clients, self._take(clients)))
            self._put(clients, new)
        self._new = []

    def _at(self, clients: Tensor) -> Tensor:
        """Places in tables whose lanes and clients are one axis: whole rows are copied at once."""
        if not self._rows:
            return clients.flatten()
        lanes, every = next(iter(self._rows.values())).shape[:2]
        return (torch.arange(0, lanes * every, every, device=clients.device).unsqueeze(1) + clients).flatten()

    def _take(self, clients: Tensor) -> Params:
        at = self._at(clients)
        return {name: rows.flatten(0, 1).index_select(0, at) for name, rows in self._rows.items()}

    def _put(self, clients: Tensor, new: Params) -> None:
        at = self._at(clients)
        for name, rows in self._rows.items():
            rows.flatten(0, 1).index_copy_(0, at, new[name])

    def _copy(self, name: str, call: int, at: Tensor) -> Tensor:
        source = self._rows[name].flatten(0, 1)
        if self._room is None:
            return source.index_select(0, at)
        place = self._room.get((name, call))
        if place is None or len(place) != len(at):
            place = self._room[name, call] = source.new_empty(len(at), *source.shape[1:])
        return torch.index_select(source, 0, at, out=place)

    def _as_leaves(self, rows: Params, clients: Tensor) -> Params:
        """Rows [N, ...] as leaves [L, C, ...]."""
        leaves = rows if self._layout is None else self._layout.leaves(rows[ARENA])
        return _unfold(leaves, clients.shape)


def _unfold(x: Params, shape: torch.Size) -> Params:
    """[N, ...] -> [L, C, ...]."""
    return {name: leaf.view(*shape, *leaf.shape[1:]) for name, leaf in x.items()}
