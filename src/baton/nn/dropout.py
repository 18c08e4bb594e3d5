"""Dropout whose mask is a keyed draw."""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from baton import rng
from baton.lanes import Params


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


def dropouts(module: nn.Module) -> dict[str, KeyedDropout]:
    """Every keyed dropout of a module by name."""
    return {name: m for name, m in module.named_modules() if isinstance(m, KeyedDropout)}


def keyed(module: nn.Module, inside: dict[str, KeyedDropout], params: Params, key: Tensor, x: Tensor) -> Tensor:
    """module(x) as a function of its parameters, the dropouts `inside` it drawn from key (a scalar)."""
    for layer in inside.values():
        layer.calls = 0
    keys = {f"{name}.key" if name else "key": key for name in inside}
    output: Tensor = functional_call(module, {**params, **keys}, (x,))
    return output
