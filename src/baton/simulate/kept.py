"""What each client keeps from visit to visit: one table a leaf, [L, M, ...]; a round touches its participants' rows."""

import torch
from torch import Tensor

from baton.lanes import Params


def table(first: Params, clients: int) -> Params:
    """What every client keeps at first [L, ...], M times: [L, M, ...]."""
    return {n: leaf.unsqueeze(1).repeat(1, clients, *[1] * (leaf.dim() - 1)) for n, leaf in first.items()}


class Kept:
    """The tables during one round. Rows are written at its end, when it is known which lanes are sound."""

    def __init__(self, tables: Params, room: dict[tuple[str, int], Tensor] | None = None) -> None:
        """room: for copies of rows, used again from round to round; None: fresh."""
        self.tables, self._room = tables, room
        self._new: list[tuple[Tensor, Params]] = []  # rows, and what is to be written there
        self._old: list[tuple[Tensor, Params]] = []  # rows that were written already, and what they held

    def read(self, clients: Tensor, again: bool) -> Params:
        """A copy of the rows of clients [L, C]: [L, C, ...]; again: they may have been written in this round."""
        if again:
            self._write()
        rows, call, shape = self._rows(clients), len(self._new) + len(self._old), clients.shape
        return {n: self._copy(n, call, rows).view(*shape, *t.shape[2:]) for n, t in self.tables.items()}

    def held(self, clients: Tensor) -> Params:
        """What the tables hold of clients [L, C]."""
        rows, shape = self._rows(clients), clients.shape
        return {n: t.flatten(0, 1).index_select(0, rows).view(*shape, *t.shape[2:]) for n, t in self.tables.items()}

    def write(self, clients: Tensor, new: Params) -> None:
        """New rows [L, C, ...], at the end of the round."""
        self._new.append((self._rows(clients), new))

    def settle(self, sound: Tensor | None) -> None:
        """The end of the round: lanes that are not sound [L] keep what they held when it began. None: all are."""
        if sound is not None:
            for rows, old in reversed(self._old):
                self._put(rows, self._where(sound, rows, old, of_the_sound=False))
            self._new = [(rows, self._where(sound, rows, new, of_the_sound=True)) for rows, new in self._new]
        for rows, new in self._new:
            self._put(rows, new)
        self._new, self._old = [], []

    def _where(self, sound: Tensor, rows: Tensor, given: Params, of_the_sound: bool) -> Params:
        """given, or what the tables hold: the first in lanes that are sound, or in those that are not."""
        mine = (sound if of_the_sound else ~sound).repeat_interleave(len(rows) // len(sound))
        flat = {n: leaf.reshape(len(rows), *self.tables[n].shape[2:]) for n, leaf in given.items()}
        held = {n: t.flatten(0, 1).index_select(0, rows) for n, t in self.tables.items()}
        return {n: torch.where(mine.view(-1, *[1] * (leaf.dim() - 1)), leaf, held[n]) for n, leaf in flat.items()}

    def _write(self) -> None:
        """Now: a client is visited twice. What was there is kept, for lanes that turn out not to be sound."""
        for rows, new in self._new:
            self._old.append((rows, {n: t.flatten(0, 1).index_select(0, rows) for n, t in self.tables.items()}))
            self._put(rows, new)
        self._new = []

    def _copy(self, name: str, call: int, rows: Tensor) -> Tensor:
        source = self.tables[name].flatten(0, 1)
        if self._room is None:
            return source.index_select(0, rows)
        place = self._room.get((name, call))
        if place is None or len(place) != len(rows):
            place = self._room[name, call] = source.new_empty(len(rows), *source.shape[1:])
        return torch.index_select(source, 0, rows, out=place)

    def _rows(self, clients: Tensor) -> Tensor:
        """Rows of the tables with lanes and clients in one axis: whole rows are copied at once."""
        if not self.tables:
            return clients.flatten()
        lanes, every = next(iter(self.tables.values())).shape[:2]
        first = torch.arange(0, lanes * every, every, device=clients.device)
        return (first.unsqueeze(1) + clients).flatten()

    def _put(self, rows: Tensor, new: Params) -> None:
        for n, t in self.tables.items():
            t.flatten(0, 1).index_copy_(0, rows, new[n].reshape(len(rows), *t.shape[2:]))


def over(mask: Tensor, leaf: Tensor) -> Tensor:
    """[L, C], to broadcast over leaf [L, C, ...]."""
    return mask.view(*mask.shape, *[1] * (leaf.dim() - 2))
