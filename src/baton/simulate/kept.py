"""What each client keeps from visit to visit: one table a leaf, [L, M, ...]; a round touches its participants' rows."""

import torch
from torch import Tensor

from baton.lanes import Params


def table(first: Params, clients: int) -> Params:
    """What every client keeps at first [L, ...], M times: [L, M, ...]."""
    return {n: leaf.unsqueeze(1).repeat(1, clients, *[1] * (leaf.dim() - 1)) for n, leaf in first.items()}


class Kept:
    """The tables during one round: rows are written in place, and can be put back."""

    def __init__(self, tables: Params) -> None:
        self.tables = tables
        self._before: list[tuple[Tensor, Params]] = []  # rows and what they held, in the order they were written

    def read(self, clients: Tensor) -> Params:
        """The rows of clients [L, C]: leaves [L, C, ...]."""
        rows = self._rows(clients)
        return {
            n: t.flatten(0, 1).index_select(0, rows).view(*clients.shape, *t.shape[2:]) for n, t in self.tables.items()
        }

    def write(self, clients: Tensor, old: Params, new: Params) -> None:
        """New rows, where `old` were read."""
        rows = self._rows(clients)
        self._before.append((rows, old))
        self._put(rows, new)

    def settle(self, sound: Tensor) -> None:
        """Lanes that are not sound [L] get back what they held when the round began."""
        for rows, old in reversed(self._before):
            clients = rows.view(len(sound), -1)
            now = {n: t.flatten(0, 1).index_select(0, rows).view_as(old[n]) for n, t in self.tables.items()}
            keep = sound.unsqueeze(1).expand_as(clients)
            self._put(rows, {n: torch.where(over(keep, leaf), now[n], leaf) for n, leaf in old.items()})

    def _rows(self, clients: Tensor) -> Tensor:
        """Rows of the tables with lanes and clients in one axis: whole rows are copied at once."""
        lanes, every = next(iter(self.tables.values())).shape[:2]
        first = torch.arange(0, lanes * every, every, device=clients.device)
        return (first.unsqueeze(1) + clients).flatten()

    def _put(self, rows: Tensor, new: Params) -> None:
        for n, t in self.tables.items():
            t.flatten(0, 1).index_copy_(0, rows, new[n].flatten(0, 1))


def over(mask: Tensor, leaf: Tensor) -> Tensor:
    """[L, C], to broadcast over leaf [L, C, ...]."""
    return mask.view(*mask.shape, *[1] * (leaf.dim() - 2))
