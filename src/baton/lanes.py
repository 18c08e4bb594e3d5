"""Lanes: independent runs that advance together. Every leaf of Params carries the lane axis first."""

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

Params = dict[str, Tensor]  # every leaf [L, ...]


class Lanes(NamedTuple):
    """What may differ inside one program, one entry a lane."""

    seed: Tensor  # [L] int64
    lr: Tensor  # [L] eta
    clip: Tensor  # [L] largest gradient norm; 0 = no clipping
    weight_decay: Tensor  # [L]
    momentum: Tensor  # [L] of a leg's steps
    partition: Tensor  # [L] int64: which table of Clients this lane reads

    def repeat(self, times: int) -> "Lanes":
        """Each lane `times` times in a row: the lanes of a round's participants."""
        return Lanes(*(field.repeat_interleave(times) for field in self))


def per_lane(vector: Tensor, leaf: Tensor) -> Tensor:
    """[L] shaped so that it broadcasts over leaf [L, ...]."""
    return vector.view(-1, *[1] * (leaf.dim() - 1))


def per_leg(vector: Tensor, leaf: Tensor) -> Tensor:
    """[L, C] shaped so that it broadcasts over leaf [L, C, ...]."""
    return vector.view(*vector.shape, *[1] * (leaf.dim() - 2))


def norm(x: Params) -> Tensor:
    """The global norm of each lane: [L]. Norm of the leaves' norms, as clip_grad_norm_ takes it.

    They are added up by name: the order of a dict changes when it is stored or sent, and with it the last bit.
    """
    leaves = [torch.linalg.vector_norm(x[name].reshape(len(x[name]), -1), dim=1) for name in sorted(x)]
    whole: Tensor = torch.linalg.vector_norm(torch.stack(leaves), dim=0)
    return whole


def finite(x: Params) -> Tensor:
    """Which lanes hold only finite numbers: [L]."""
    largest = [torch.linalg.vector_norm(leaf.reshape(len(leaf), -1), inf, 1) for leaf in x.values()]
    return torch.stack(largest).isfinite().all(0)  # NaN is the largest of all


def summable(x: Params) -> Tensor:
    """The same by sums, which is quicker: numbers so large that they have none do not count as finite either: [L]."""
    return torch.stack([leaf.reshape(len(leaf), -1).sum(1) for leaf in x.values()]).isfinite().all(0)


def zeros(x: Params) -> Params:
    """Like x, and nothing yet."""
    return {name: torch.zeros_like(leaf) for name, leaf in x.items()}


def where(mask: Tensor, a: Params, b: Params) -> Params:
    """a where mask [L], else b."""
    return {name: torch.where(per_lane(mask, a[name]), a[name], b[name]) for name in a}
