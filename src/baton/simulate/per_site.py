"""Whose test rows are whose, and a metric of each site on its own."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import rng
from baton.clients import Clients
from baton.datasets import Dataset
from baton.metrics import STATISTICS, Metric
from baton.metrics.base import End
from baton.setting import Setting

MOST = 1000  # sites that are measured; of more clients, a keyed sample
PERSONAL = 20  # of them, where each has a model of its own and rows are told by class: each takes a pass of its own
OWN, BY_CLASS = "its own test rows", "the test rows of the classes it holds"
Values = dict[str, NDArray[np.float64]]


class Sites(NamedTuple):
    """The sites that are measured: k of M, the same for all lanes. On the CPU."""

    client: Tensor  # [k] who they are
    name: tuple[str, ...]  # [k]
    total: int  # M
    owner: Tensor | None  # [D, n] the site of each test row, as a place in `client`; k: nobody's. None: by classes
    held: Tensor  # [P, k, C] the classes each holds
    rows_of: Tensor  # [P, k] how many test rows each has
    how: str  # which rows are a site's

    def rows(self, labels: Tensor, data: int, partition: int, site: int) -> Tensor:
        """The places of a site's test rows [r]; labels [n] of its data set."""
        mine = self.owner[data] == site if self.owner is not None else self.held[partition, site][labels]
        return mine.nonzero().squeeze(1)

    def held_by(self, owner: Tensor) -> "Sites":
        """The same sites with other rows: those that they hold back, owner [n] being each row's client."""
        k = len(self.client)
        place = torch.full((self.total,), k).index_copy_(0, self.client, torch.arange(k))[owner]
        count = torch.bincount(place, minlength=k + 1)[:k]
        return self._replace(owner=place.unsqueeze(0), rows_of=count.unsqueeze(0), how=OWN)

    @property
    def said(self) -> str:
        """What a person should know to read the numbers."""
        some = f"; {len(self.client):,} of {self.total:,} clients, drawn once for all" if self.sampled else ""
        return f"each site on {self.how}{some}"

    @property
    def sampled(self) -> bool:
        """Whether not all clients are measured."""
        return len(self.client) < self.total


def sites(settings: Sequence[Setting], data: Sequence[Dataset], clients: Clients, personal: bool) -> Sites | None:
    """Of lanes that share a program; None where nobody can tell whose a test row is.

    Test rows are a site's own where the data set says so and the run keeps its sites (`natural`).
    """
    total, classes = clients.start.shape[1] - 1, data[0].classes
    owned = all(d.test_owner is not None for d in data) and all(s.partition == "natural" for s in settings)
    if not owned and not classes:
        return None
    most = min(total, PERSONAL if personal and not owned else MOST)
    key = rng.bits(torch.tensor(0), rng.EVALUATE, -1)  # no seed: the same for all runs that may be compared
    client = torch.arange(total) if most == total else rng.choose(key, total, most).sort().values
    names = data[0].names if len(data[0].names) == total and len(data) == 1 else ()
    name = tuple(names[m] if names else str(m) for m in client.tolist())
    held, labels = _held(clients, max(1, classes))[:, client], clients.test_y.cpu()
    if owned:
        place = torch.full((total + 1,), most).index_copy_(0, client, torch.arange(most))
        every = torch.stack([d.test_owner for d in data if d.test_owner is not None]).cpu()
        owner = place[every.where((every >= 0) & (every < total), torch.tensor(total))]
        count = torch.stack([torch.bincount(row, minlength=most + 1)[:most] for row in owner])[clients.dataset.cpu()]
        return Sites(client, name, total, owner, held, count, OWN)
    there = torch.stack([torch.bincount(row, minlength=classes) for row in labels])[clients.dataset.cpu()]  # [P, C]
    return Sites(client, name, total, None, held, (held * there.unsqueeze(1)).sum(2), BY_CLASS)


def _held(clients: Clients, classes: int) -> Tensor:
    """Which classes each client has samples of: [P, M, C]."""
    start, found = clients.start.cpu(), []
    for own in start:
        sizes = own.diff()
        who = torch.arange(len(sizes)).repeat_interleave(sizes)
        kind = clients.y[clients.samples[own[0] : own[-1]]].cpu().long().clamp(0, classes - 1)
        table = torch.bincount(who * classes + kind, minlength=len(sizes) * classes)
        found.append(table.view(-1, classes) > 0)
    return torch.stack(found)


def by_site(
    metric: Metric, where: Sites, outputs: Tensor, labels: Tensor, data: int, partition: Tensor
) -> NDArray[np.float64]:
    """A metric of each site [L, k]: outputs [L, n, ...] of lanes of one data set, labels [n], partition [L]."""
    if metric.sums is not None:
        rows = metric.sums.rows(outputs, labels)
        if where.owner is not None:
            cells, every = where.owner[data], len(where.client) + 1
        else:
            cells, every = labels, where.held.shape[2]
        sums = rows.new_zeros(len(rows), every, rows.shape[2]).index_add_(1, cells, rows)
        sums = sums[:, :-1] if where.owner is not None else _of_classes(where.held[partition], sums)
        empty = (where.rows_of[partition] == 0).unsqueeze(-1)
        return metric.sums.value(sums.masked_fill(empty, torch.nan)).numpy()
    if metric.held is not None and where.owner is None:
        return metric.held(outputs, labels, where.held[partition]).numpy()
    return _one_by_one(metric, where, outputs, labels, data, partition)


def _of_classes(held: Tensor, sums: Tensor) -> Tensor:
    """Add up sums [L, C, k] over the classes that sites hold [L, M, C]; nan reaches those that hold its class alone."""
    lost, holds = sums.isnan().any(-1, keepdim=True), held.double()  # [L, C, 1], [L, M, C]
    return (holds @ sums.masked_fill(lost, 0.0)).masked_fill(holds @ lost.double() > 0, torch.nan)


def _one_by_one(
    metric: Metric, where: Sites, outputs: Tensor, labels: Tensor, data: int, partition: Tensor
) -> NDArray[np.float64]:
    """The same where sums do not tell it: once for all sites that have the same rows."""
    found = np.full((len(outputs), len(where.client)), np.nan)
    for p in sorted(set(partition.tolist())):
        lanes, known = (partition == p).nonzero().squeeze(1), dict[object, NDArray[np.float64]]()
        for site in range(len(where.client)):
            rows = where.rows(labels, data, p, site)
            key = site if where.owner is not None else tuple(where.held[p, site].tolist())
            if key not in known and len(rows):
                known[key] = metric.of(outputs[lanes][:, rows], labels[rows], None).numpy()
            if len(rows):
                found[lanes.numpy(), site] = known[key]
    return found


def over_sites(label: str, found: NDArray[np.float64], best: End | None) -> Values:
    """Mean, worst, best and spread (standard deviation) over the sites that have a number: [L, k] -> [L] each.

    best: the better end; None: nobody knows, so that there is no worst and no best.
    """
    with np.errstate(invalid="ignore"):
        known = ~np.isnan(found)
        count = np.where(known.any(1), known.sum(1), np.nan)
        mean = np.where(known, found, 0.0).sum(1) / count
        spread = np.sqrt(np.where(known, (found - mean[:, None]) ** 2, 0.0).sum(1) / count)
        low = np.where(known.any(1), np.where(known, found, np.inf).min(1), np.nan)
        high = np.where(known.any(1), np.where(known, found, -np.inf).max(1), np.nan)
    worst, top = (low, high) if best == "max" else (high, low)
    every = zip(STATISTICS, (mean, worst, top, spread), strict=True)
    return {f"site_{label}_{name}": x for name, x in every if best is not None or name in ("mean", "spread")}
