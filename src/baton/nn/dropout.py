"""Dropout whose mask is a keyed draw."""

import torch
from torch import Tensor, nn

from baton import rng


class KeyedDropout(nn.Module):
    """nn.Dropout with the mask drawn from `key`, one word a step.

    `layer` tells the layers of one model apart, `calls` the uses of one layer in a forward pass.
    """

    key: Tensor

    def __init__(self, p: float, layer: int) -> None:
        super().__init__()
        self.p, self.layer, self.calls = p, layer, 0
        self.register_buffer("key", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [b, ...]."""
        if not self.training or self.p == 0.0:
            return x
        if self.p == 1.0:
            return x * 0.0
        place = torch.arange(x.numel(), device=x.device).view(x.shape)
        keep = rng.uniform(rng.bits(self.key, self.layer, self.calls, place)) >= self.p
        self.calls += 1
        return x * keep / (1.0 - self.p)
