"""Who holds which samples, and the minibatches a leg draws from them: all keyed, nothing kept between visits."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from baton import datasets, rng
from baton.errors import BadInput
from baton.lanes import Lanes
from baton.names import bind
from baton.partitions import PARTITIONS, Owner, natural
from baton.setting import Setting


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


@lru_cache(maxsize=256)
def owners(dataset: str, partition: str, clients: int) -> Owner:
    """owner [N]: the client of each training sample, -1 for a sample nobody holds."""
    data = datasets.load(dataset, clients)
    name, split, params = bind("partition", partition, PARTITIONS)
    labels = data.y.numpy()
    if name == "natural":
        owner = natural(labels, clients, None if data.owner is None else data.owner.numpy())
    elif data.classes == 0:
        raise BadInput(f"partition: {partition!r} splits labelled samples; this data set's own clients are 'natural'")
    else:
        owner = np.asarray(split(labels, clients, **params))
    if owner.shape != labels.shape or owner.min() < -1 or owner.max() >= clients:
        raise BadInput(
            f"partition: {partition!r} must give each of the {len(labels)} samples a client from 0 to {clients - 1}"
        )
    return owner


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


class Batches(NamedTuple):
    """The minibatches of one leg a lane."""

    places: Tensor  # [L, K, b] in the pool
    weight: Tensor  # [L, K, b] 1, or 0 where a short batch is padded; 0 everywhere for a client without samples
    key: Tensor  # [L, K] for what is drawn anew at each step: dropout, augmentation


def spans(clients: Clients, lanes: Lanes, client: Tensor) -> tuple[Tensor, Tensor]:
    """(first place, samples) of client [L, ...] in each lane's partition."""
    partition = lanes.partition.view(-1, *[1] * (client.dim() - 1))
    first = clients.start[partition, client]
    return first, clients.start[partition, client + 1] - first


def width(setting: Setting, largest: int) -> int:
    """Samples drawn for one step: b, but no more than any client can fill where they are not put back."""
    return setting.batch_size if setting.sampling == "replacement" else max(1, min(setting.batch_size, largest))


def taken(count: Tensor, setting: Setting, passes: int = 0) -> tuple[Tensor, Tensor]:
    """(samples, steps) of a leg at clients that hold so many: tau_m steps, a short batch at the end of each pass."""
    batch = setting.batch_size
    per_pass = (count + batch - 1) // batch
    steps = torch.full_like(count, setting.local_steps)
    steps = torch.where(count > 0, torch.minimum(steps, passes * per_pass) if passes else steps, 0)
    if setting.sampling == "replacement":
        return steps * batch, steps
    whole = steps // per_pass.clamp(min=1)
    return whole * count + torch.minimum((steps - whole * per_pass) * batch, count), steps


def batches(
    clients: Clients, lanes: Lanes, round: int | Tensor, client: Tensor, setting: Setting, passes: int = 0
) -> Batches:
    """K minibatches for one visit to client [L]: shuffled, cut into b, a short last one, reshuffled after each pass.

    passes: if not 0, batches after so many passes over the client's samples are empty.
    """
    steps, size = setting.local_steps, width(setting, clients.largest)
    first, count = spans(clients, lanes, client)
    visit = rng.bits(lanes.seed, rng.SHUFFLE, round, client)  # [L]
    if setting.sampling == "replacement":
        slot = torch.arange(steps * size, device=client.device)
        draw = rng.bits(visit.unsqueeze(1), rng.REPLACEMENT, slot)
        item = rng.below(draw, count.clamp(min=1).unsqueeze(1)).view(-1, steps, size)
        weight = (count > 0).to(lanes.lr.dtype).view(-1, 1, 1).expand(item.shape)
    else:
        order = rng.passes(visit, count, steps * size, clients.smallest, clients.largest)
        n = count.view(-1, 1, 1)
        per_pass = ((n + setting.batch_size - 1) // setting.batch_size).clamp(min=1)
        step = torch.arange(steps, device=client.device).view(1, -1, 1)
        place = (step % per_pass) * setting.batch_size + torch.arange(size, device=client.device)  # [L, K, b]
        weight = (place < n).to(lanes.lr.dtype)
        flat = ((step // per_pass) * n + place).clamp(max=steps * size - 1).flatten(1)
        item = order.gather(1, flat).view(place.shape)
    if passes:
        live = torch.arange(steps, device=client.device) < taken(count, setting, passes)[1].unsqueeze(1)  # [L, K]
        weight = weight * live.unsqueeze(2)
    places = clients.samples[(first.view(-1, 1, 1) + item).clamp(max=len(clients.samples) - 1)]
    key = rng.bits(visit.unsqueeze(1), rng.DROPOUT, torch.arange(steps, device=client.device))
    return Batches(places, weight, key)


def members(clients: Clients, lanes: Lanes, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """All samples of chosen clients [L, S], one after another: (places in the pool [L, T], weight [L, T]); T >= 1."""
    first, count = spans(clients, lanes, chosen)
    ends = count.cumsum(1)
    place = torch.arange(max(1, int(ends[:, -1].max())), device=chosen.device).expand(len(chosen), -1).contiguous()
    which = torch.searchsorted(ends, place, right=True).clamp(max=chosen.shape[1] - 1)
    item = first.gather(1, which) + place - (ends - count).gather(1, which)
    return clients.samples[item.clamp(max=len(clients.samples) - 1)], place < ends[:, -1:]
