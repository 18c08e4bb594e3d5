"""Squared lengths of means that are themselves estimated, and how sure they are.

The square of an estimated mean is too large by the estimate's variance. With the mean taken in B replicates g_1 .. g_B
that variance is known, and can be taken off again. All that is needed is the replicates' inner products.
"""

import torch
from torch import Tensor


def square(gram: Tensor, left: float = 1.0) -> Tensor:
    """|mean|^2 from the inner products [..., B, B] of its replicates, without bias.

    left: the share of the population that was not drawn, where it was drawn without replacement; 0: all were there.
    """
    count = gram.shape[-1]
    raw = gram.mean((-1, -2))
    if count < 2 or not left:
        return raw
    spread = gram.diagonal(dim1=-2, dim2=-1).mean(-1) - raw  # mean of |g_b - mean|^2
    return raw - left * spread / (count - 1)


def variance(gram: Tensor) -> Tensor:
    """E|g - E g|^2 of the replicates, from their inner products [..., B, B]."""
    count = gram.shape[-1]
    return (gram.diagonal(dim1=-2, dim2=-1).mean(-1) - gram.mean((-1, -2))) * count / (count - 1)


def leaving_one_out(gram: Tensor) -> Tensor:
    """Inner products [B, B - 1, B - 1] without each of the replicates in turn."""
    count = len(gram)
    keep = torch.arange(count).repeat(count, 1)[~torch.eye(count, dtype=torch.bool)].view(count, count - 1)
    return gram[keep.unsqueeze(2), keep.unsqueeze(1)]


def jackknife(each: Tensor) -> float:
    """The standard error of an estimate whose values without each of its replicates are given [B]."""
    count = len(each)
    return float(((each - each.mean()).square().sum() * (count - 1) / count).sqrt())
