"""The classes that clients hold: what class-balanced minibatches are drawn from."""

from typing import NamedTuple

import torch
from torch import Tensor


class Kinds(NamedTuple):
    """One entry for each class of each client, a client's after another's.

    Those of partition p's client m: from start[p, m] to start[p, m + 1]. Its samples lie class by class.
    """

    start: Tensor  # [P, M + 1]
    first: Tensor  # [G] where a class begins among its client's samples
    size: Tensor  # [G] samples of it there


def by_class(samples: Tensor, start: Tensor, y: Tensor) -> tuple[Tensor, Kinds]:
    """(samples with those of each client class by class, where these lie): as Clients has samples and start."""
    partitions, clients = start.shape[0], start.shape[1] - 1
    sizes = start.diff(dim=1).flatten()
    holder = torch.arange(len(sizes), device=y.device).repeat_interleave(sizes)
    order = y[samples].argsort(stable=True)
    order = order[holder[order].argsort(stable=True)]
    samples, label = samples[order], y[samples[order]]
    other = torch.ones_like(label, dtype=torch.bool)
    other[1:] = (label[1:] != label[:-1]) | (holder[1:] != holder[:-1])
    begin = other.nonzero().squeeze(1)  # [G] of each class of each client, among all samples
    whose = holder[begin]
    before = torch.searchsorted(whose, torch.arange(len(sizes) + 1, device=y.device))
    places = torch.arange(partitions, device=y.device).unsqueeze(1) * clients + torch.arange(
        clients + 1, device=y.device
    )
    ends = torch.cat([begin[1:], begin.new_tensor([len(samples)])])
    return samples, Kinds(before[places], begin - start[:, :-1].flatten()[whose], ends - begin)
