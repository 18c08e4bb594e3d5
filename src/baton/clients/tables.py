"""Who holds which samples."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from baton import datasets
from baton.errors import BadInput
from baton.lanes import Lanes
from baton.names import behind, bind
from baton.partitions import PARTITIONS, Owner, natural
from baton.setting import Setting
from baton.usercode import call, place


class Clients(NamedTuple):
    """The pooled samples of all lanes' data sets, and tables of who holds what: memory in samples + M a partition.

    Samples of partition p's client m: samples[start[p, m] : start[p, m + 1]], as places in the pool.
    """

    x: Tensor  # [N, ...] pool
    y: Tensor  # [N]
    samples: Tensor  # [sum of the partitions' samples]
    start: Tensor  # [P, M + 1]
    smallest: int  # samples at the smallest client
    largest: int  # and at the largest
    test_x: Tensor  # [D, n, ...] one test set a data set
    test_y: Tensor  # [D, n]
    dataset: Tensor  # [P] which data set a partition splits


def owners(dataset: str, partition: str, clients: int) -> Owner:
    """owner [N]: the client of each training sample, -1 for a sample nobody holds."""
    own = behind("dataset", dataset, datasets.LOADERS), behind("partition", partition, PARTITIONS)
    return _owners(dataset, partition, clients, own, datasets.content(dataset, clients))


@lru_cache(maxsize=256)
def _owners(dataset: str, partition: str, clients: int, own: Any, content: str) -> Owner:  # noqa: ARG001
    """own, content: a user's functions and the samples, which may be others the next time."""
    data = datasets.load(dataset, clients)
    name, split, params = bind("partition", partition, PARTITIONS)
    labels = data.y.numpy()
    owner: Owner | None
    if name == "natural":
        owner = natural(labels, clients, None if data.owner is None else data.owner.numpy())
    elif data.classes == 0:
        raise BadInput(f"partition: {partition!r} splits labelled samples; this data set's own clients are 'natural'")
    else:
        owner = _as_owner(call("partition", name, split, labels, clients, **params))
    if owner is None or owner.shape != labels.shape or owner.min() < -1 or owner.max() >= clients:
        what = f"must give each of the {len(labels)} samples a client from 0 to {clients - 1}, or -1 for none"
        raise BadInput(f"partition: {partition!r} {what}{_but(owner)}{place(name, split)}")
    return owner


def _as_owner(made: Any) -> Owner | None:
    """What a partition made, as an array of whole numbers; None where it is none."""
    try:
        found = np.asarray(made)
    except Exception:
        return None
    return found if found.dtype.kind in "iu" else None


def _but(owner: Owner | None) -> str:
    """What is wrong with an owner of samples."""
    if owner is None:
        return "; what it gives is no array of whole numbers"
    if owner.ndim != 1:
        return f"; it gives the shape {owner.shape}"
    return f"; it gives {len(owner)}" + (f", from {owner.min()} to {owner.max()}" if len(owner) else "")


def build(settings: Sequence[Setting], dtype: torch.dtype, device: torch.device) -> tuple[Clients, Tensor]:
    """The clients of lanes that share a program, and which partition each lane reads [L]."""
    names = list(dict.fromkeys(s.dataset for s in settings))
    pairs = list(dict.fromkeys((s.dataset, s.partition) for s in settings))
    clients = settings[0].clients
    loaded = [datasets.load(name, clients) for name in names]
    base = np.cumsum([0, *(len(data.y) for data in loaded)])

    def stored(parts: list[Tensor]) -> Tensor:
        x = parts[0] if len(parts) == 1 else torch.cat(parts)  # one data set stays where it is: in mapped memory
        return x.to(device) if x.dtype == torch.uint8 else x.to(device, dtype)

    samples, starts, filled = [], [], 0
    for name, partition in pairs:
        d = names.index(name)
        owner = owners(name, partition, clients)
        order = np.argsort(owner, kind="stable")
        order = order[np.count_nonzero(owner < 0) :]
        counts = np.bincount(owner[owner >= 0], minlength=clients)
        samples.append(order + base[d])
        starts.append(filled + np.concatenate([[0], np.cumsum(counts)]))
        filled += len(order)
    start = np.stack(starts)
    sizes = np.diff(start, axis=1)
    table = Clients(
        x=stored([data.x for data in loaded]),
        y=torch.cat([data.y for data in loaded]).to(device),
        samples=torch.from_numpy(np.concatenate(samples)).to(device),
        start=torch.from_numpy(start).to(device),
        smallest=int(sizes.min()),
        largest=int(sizes.max()),
        test_x=stored([data.test_x.unsqueeze(0) for data in loaded]),
        test_y=torch.stack([data.test_y for data in loaded]).to(device),
        dataset=torch.tensor([names.index(name) for name, _ in pairs], device=device),
    )
    return table, torch.tensor([pairs.index((s.dataset, s.partition)) for s in settings], device=device)


def labels(clients: Clients, classes: int) -> Tensor:
    """[P, M, classes]: how many samples of each label each client holds."""
    partitions, ends = clients.start.shape
    count = clients.start.diff(dim=1).flatten()
    row = torch.arange(partitions * (ends - 1), device=count.device).repeat_interleave(count)
    at = row * classes + clients.y[clients.samples]
    return torch.bincount(at, minlength=partitions * (ends - 1) * classes).view(partitions, ends - 1, classes)


def spans(clients: Clients, lanes: Lanes, client: Tensor) -> tuple[Tensor, Tensor]:
    """(first place, samples) of client [L, ...] in each lane's partition."""
    partition = lanes.partition.view(-1, *[1] * (client.dim() - 1))
    first = clients.start[partition, client]
    return first, clients.start[partition, client + 1] - first


def members(clients: Clients, lanes: Lanes, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """All samples of chosen clients [L, S], one after another: (places in the pool [L, T], weight [L, T]); T >= 1."""
    first, count = spans(clients, lanes, chosen)
    ends = count.cumsum(1)
    place = torch.arange(max(1, int(ends[:, -1].max())), device=chosen.device).expand(len(chosen), -1).contiguous()
    which = torch.searchsorted(ends, place, right=True).clamp(max=chosen.shape[1] - 1)
    item = first.gather(1, which) + place - (ends - count).gather(1, which)
    return clients.samples[item.clamp(max=len(clients.samples) - 1)], place < ends[:, -1:]
