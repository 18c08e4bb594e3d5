"""The metrics that a run asks for beside the usual ones: over the whole test set, by class, and at every site.

All on the CPU and in one order, so that the same outputs give the same bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton import metrics
from baton.clients import Clients
from baton.datasets import Dataset
from baton.metrics import PER_CLASS, Metric, predicted
from baton.metrics.base import lost_rows
from baton.notice import once
from baton.setting import Setting
from baton.simulate.per_site import Sites, Values, by_site, over_sites, sites
from baton.store.columns import SITE, held_back
from baton.store.sites import Measured

NUMBERS = 8_000_000  # outputs that are looked at together


class HeldRows(NamedTuple):
    """The samples that clients hold back, of every partition; -1: none."""

    places: Tensor  # [P, T] in the pool
    owner: Tensor  # [P, T] the client of each
    labels: Tensor  # [N] of the pool


class Asked(NamedTuple):
    """What is measured, and where."""

    metrics: dict[str, Metric]  # by label
    classes: int  # that have a column each; 0: they were not asked for
    sites: Sites | None  # None: nobody knows whose a test row is
    labels: Tensor  # [D, n]
    of_lane: Tensor  # [L] the data set of each lane
    partition: Tensor  # [L]
    owner: Tensor | None  # [D, n] the client of each test row; None: rows are told by class

    @property
    def measured(self) -> Measured | None:
        """The sites whose metrics are taken; None: none are."""
        if self.sites is None or not self.metrics:
            return None
        return Measured(self.sites.name, self.sites.rows_of[self.partition].numpy(), self.sites.said)

    def of(self, outputs: Tensor, known: Tensor | None = None) -> Values:
        """All of it, from what lanes put out for the test set [L, n, ...]; known [D, n]: rows that were answered."""
        found: Values = {}
        for d in sorted(set(self.of_lane.tolist())):
            lanes = (self.of_lane == d).nonzero().squeeze(1)
            size = max(1, NUMBERS // max(1, outputs[0].numel()))
            for some in lanes.split(size):
                self._fill(found, outputs[some].cpu(), some, d, None if known is None else known[d])
        return found

    def of_held(self, outputs: Tensor, rows: HeldRows) -> Values:
        """The same of the samples that clients hold back, from what lanes put out for them [L, T, ...].

        A site's rows are those that it holds back itself.
        """
        found: Values = {}
        size = max(1, NUMBERS // max(1, outputs[0].numel()))
        for p in sorted(set(self.partition.tolist())):
            there = rows.places[p] >= 0
            labels = rows.labels[rows.places[p][there].to(rows.labels.device)].cpu()
            where = None if self.sites is None else self.sites.held_by(rows.owner[p][there])
            for lanes in (self.partition == p).nonzero().squeeze(1).split(size):
                mine = outputs[lanes.to(outputs.device)].cpu()[:, there]
                for name, values in self._of_rows(mine, labels, where).items():
                    found.setdefault(name, np.full(len(self.of_lane), np.nan))[lanes.numpy()] = values
        return found

    def _of_rows(self, outputs: Tensor, labels: Tensor, where: Sites | None) -> Values:
        """Of some lanes' rows held back; where: whose they are."""
        found: Values = {}
        for label, metric in self.metrics.items():
            found[f"validation_{label}"] = metric.of(outputs, labels, None).numpy()
            if where is not None:
                each = by_site(metric, where, outputs, labels, 0, torch.zeros(len(outputs), dtype=torch.int64))
                found |= {held_back(name): x for name, x in over_sites(label, each, metric.best).items()}
        if self.classes:
            right = torch.where(lost_rows(outputs), torch.nan, (predicted(outputs) == labels).double())
            for c in range(self.classes):
                found[f"validation_class_{c}_accuracy"] = 100 * right[:, labels == c].mean(1).numpy()
        return found

    def _fill(self, found: Values, outputs: Tensor, lanes: Tensor, d: int, known: Tensor | None) -> None:
        labels, at = self.labels[d], lanes.numpy()

        def put(name: str, values: NDArray[np.float64], kind: type = np.float64) -> None:
            every = found.setdefault(name, np.full((len(self.of_lane), *values.shape[1:]), np.nan, kind))
            every[at] = values

        for label, metric in self.metrics.items():
            put(f"test_{label}", metric.of(outputs, labels, None if known is None else known.double()).numpy())
            if self.sites is not None:
                each = by_site(metric, self.sites, outputs, labels, d, self.partition[lanes])
                put(SITE + label, each, np.float32)
                for name, values in over_sites(label, each, metric.best).items():
                    put(name, values)
        if self.classes:
            right = (predicted(outputs) == labels).double() * (1.0 if known is None else known.double())
            sums = right.new_zeros(len(right), self.classes).index_add_(1, labels, right)
            weight = torch.ones(len(labels)) if known is None else known.float()
            count = torch.zeros(self.classes).index_add_(0, labels, weight)
            for c, share in enumerate((100 * sums / count).T):
                put(f"class_{c}_accuracy", share.numpy())


def asked(
    settings: Sequence[Setting], data: Sequence[Dataset], clients: Clients, partition: Tensor, personal: bool
) -> Asked | None:
    """What lanes of one program measure beside the usual; None: nothing. personal: each client has its own model."""
    specs = metrics.wanted(settings[0].metrics, data[0])
    if not specs and not personal:
        return None
    where = sites(settings, data, clients, personal)
    found = metrics.build(specs, data[0])
    if found and where is None:
        once("metrics: this data set does not say whose its test rows are; sites are not measured, all rows are")
    elif where is not None and found and (where.sampled or where.owner is None):
        once(f"metrics of sites: {where.said}")
    partition = partition.cpu()
    of_lane = clients.dataset.cpu()[partition]
    classes = data[0].classes if PER_CLASS in specs else 0
    owner = None
    if where is not None and where.owner is not None:
        owner = torch.stack([d.test_owner for d in data if d.test_owner is not None]).cpu()
    return Asked(found, classes, where, clients.test_y.cpu(), of_lane, partition, owner)
