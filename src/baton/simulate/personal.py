"""Algorithms whose clients each use a model of their own: who answers which test row."""

import numpy as np
import torch
from torch import Tensor

from baton import metrics
from baton.clients import Clients
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.lanes import Params
from baton.legs import Legs
from baton.simulate.asked import Asked
from baton.simulate.per_site import PERSONAL, Values, over_sites
from baton.store.columns import SITE


def of_client(personal: Params, lanes: Tensor, client: Tensor | int) -> Params:
    """The models of one client a lane: leaves [L, M, ...] -> [l, ...]."""
    return {name: leaf[lanes.to(leaf.device), client].contiguous() for name, leaf in personal.items()}


def answers(legs: Legs, personal: Params, clients: Clients, owner: Tensor, of_lane: Tensor) -> tuple[Tensor, Tensor]:
    """(outputs [L, n, ...], each test row answered by its owner's model; rows that have an owner [D, n])."""
    pool, count, total = clients.test_x.flatten(0, 1), owner.shape[1], clients.start.shape[1] - 1
    known, made = (owner >= 0) & (owner < total), None
    for d in sorted(set(of_lane.tolist())):
        lanes = (of_lane == d).nonzero().squeeze(1)
        for m in sorted(set(owner[d][known[d]].tolist())):
            rows = (owner[d] == m).nonzero().squeeze(1)
            found = legs.outputs(of_client(personal, lanes, m), pool, (d * count + rows).to(pool.device)).cpu()
            if made is None:
                made = found.new_zeros(len(of_lane), count, *found.shape[2:])
            made[lanes.unsqueeze(1), rows] = found
    if made is None:
        raise BadInput("dataset: no test row belongs to a client, and each has a model of its own; test_owner is right")
    return made, known


def by_class(legs: Legs, personal: Params, clients: Clients, data: Dataset, asked: Asked) -> Values:
    """The same where test rows are told by class: each site's model on its own rows; test_ is the mean over sites.

    Where nothing says whose rows are whose, every client's model answers all of them (of many clients some).
    """
    where, pool, count = asked.sites, clients.test_x.flatten(0, 1), asked.labels.shape[1]
    every = metrics.build(["loss", *(["accuracy"] if data.classes else [])], data) | asked.metrics
    who = where.client.tolist() if where is not None else list(range(min(PERSONAL, clients.start.shape[1] - 1)))
    each = {label: np.full((len(asked.of_lane), len(who)), np.nan) for label in every}
    for p in sorted(set(asked.partition.tolist())):
        lanes, d = (asked.partition == p).nonzero().squeeze(1), int(clients.dataset[p])
        for site, client in enumerate(who):
            rows = torch.arange(count) if where is None else where.rows(asked.labels[d], d, p, site)
            if len(rows):
                outputs = legs.outputs(of_client(personal, lanes, client), pool, (d * count + rows).to(pool.device))
                for label, metric in every.items():
                    each[label][lanes.numpy(), site] = metric.of(outputs.cpu(), asked.labels[d][rows], None).numpy()
    found: Values = {}
    for label, metric in every.items():
        told = over_sites(label, each[label], metric.best)
        found[f"test_{label}"] = told[f"site_{label}_mean"]
        if label in asked.metrics:
            found |= {SITE + label: each[label].astype(np.float32), **told}
    return found
