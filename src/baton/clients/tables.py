"""Who holds which samples."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from baton import algorithms, datasets, usercode
from baton.clients.held import held_back
from baton.clients.kinds import Kinds, by_class
from baton.errors import BadInput
from baton.lanes import Lanes
from baton.names import behind, bind
from baton.partitions import PARTITIONS, Owner, natural
from baton.setting import Setting, changed
from baton.usercode import call, place

BLIND = ("iid", "file")  # partitions that do not look at labels, so that these may be numbers


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
    weight: Tensor | None = None  # [N] what each sample of the pool counts; None: all alike
    kinds: Kinds | None = None  # where batches are balanced
    held: Tensor | None = None  # [P, T] places of samples held back from training, -1: none; None: of no partition
    held_by: Tensor | None = None  # [P, T] whose they are


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
        if (count := datasets.sites_in(data)) not in (None, clients):
            right = f"{count} is right, or another partition, such as iid"
            raise BadInput(f"clients: {clients}; {dataset!r} has {count} sites of its own, so {right}")
        owner = natural(labels, clients, None if data.owner is None else data.owner.numpy())
    elif data.classes == 0 and not (datasets.tells_numbers(data) and (name in BLIND or usercode.own(name))):
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

    samples, starts, filled, held, whose = [], [], 0, list[Tensor](), list[Tensor]()
    share = settings[0].validation
    for name, partition in pairs:
        d = names.index(name)
        owner = owners(name, partition, clients)
        if share:
            apart = held_back(owner, loaded[d].y.numpy(), share)
            held.append(torch.from_numpy(np.flatnonzero(apart) + base[d]))
            whose.append(torch.from_numpy(owner[apart]))
            owner = np.where(apart, -1, owner)
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
        y=_labels(torch.cat([data.y for data in loaded]), dtype).to(device),
        samples=torch.from_numpy(np.concatenate(samples)).to(device),
        start=torch.from_numpy(start).to(device),
        smallest=int(sizes.min()),
        largest=int(sizes.max()),
        test_x=stored([data.test_x.unsqueeze(0) for data in loaded]),
        test_y=_labels(torch.stack([data.test_y for data in loaded]), dtype).to(device),
        dataset=torch.tensor([names.index(name) for name, _ in pairs], device=device),
        weight=_weights(loaded, dtype, device),
        held=pad_sequence(held, True, -1).to(device) if held else None,
        held_by=pad_sequence(whose, True, -1).to(device) if held else None,
    )
    if settings[0].sampling == "balanced":
        if not all(data.classes for data in loaded):
            raise BadInput(f"sampling: balanced, and {names[0]} has no classes; shuffle or replacement is right")
        table = balanced(table)
    return table, torch.tensor([pairs.index((s.dataset, s.partition)) for s in settings], device=device)


def labels(clients: Clients, classes: int) -> Tensor:
    """[P, M, classes]: how many samples of each label each client holds."""
    partitions, ends = clients.start.shape
    count = clients.start.diff(dim=1).flatten()
    row = torch.arange(partitions * (ends - 1), device=count.device).repeat_interleave(count)
    y = clients.y[clients.samples]
    at = row if y.is_floating_point() else row * classes + y
    return torch.bincount(at, minlength=partitions * (ends - 1) * classes).view(partitions, ends - 1, classes)


def balanced(clients: Clients) -> Clients:
    """The same, for batches in which all classes of a client are alike."""
    samples, kinds = by_class(clients.samples, clients.start, clients.y)
    return clients._replace(samples=samples, kinds=kinds)


def pooled(clients: Clients) -> Clients:
    """One client that holds what all of a partition's hold, in the order of the data set."""
    start = clients.start[:, [0, -1]]
    parts = [clients.samples[a:b].sort().values for a, b in start.tolist()]
    sizes = start.diff(dim=1)
    made = clients._replace(
        samples=torch.cat(parts), start=start, smallest=int(sizes.min()), largest=int(sizes.max()), kinds=None
    )
    return made if clients.kinds is None else balanced(made)


def pooled_leg(setting: Setting) -> Setting:
    """The leg of that client: as many steps as those of a round come to, or E passes."""
    return changed(setting, local_steps=setting.participants * setting.local_steps)


def sizes(setting: Setting) -> Owner:
    """[M]: the samples of each client."""
    owner = owners(setting.dataset, setting.partition, setting.clients)
    return np.bincount(owner[owner >= 0], minlength=setting.clients)


def steps(setting: Setting) -> int:
    """SGD steps in the run: R S K. With epochs, those of the clients that take part on average."""
    if not setting.epochs:
        return setting.rounds * setting.participants * setting.local_steps
    held, batch = sizes(setting), setting.batch_size
    if algorithms.build(setting.algorithm).pools:
        return setting.rounds * setting.epochs * int(-(-held.sum() // batch))
    every = setting.epochs * int((-(-held // batch)).sum())  # if all take part
    return setting.rounds * round(every * setting.participants / setting.clients)


def _labels(y: Tensor, dtype: torch.dtype) -> Tensor:
    """Classes as they are, numbers in the arithmetic's type."""
    return y.to(dtype) if y.is_floating_point() else y


def _weights(loaded: Sequence[datasets.Dataset], dtype: torch.dtype, device: torch.device) -> Tensor | None:
    if all(data.weight is None for data in loaded):
        return None
    ones = [torch.ones(len(data.y)) if data.weight is None else data.weight for data in loaded]
    return torch.cat([weight.to(device, dtype) for weight in ones])


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
