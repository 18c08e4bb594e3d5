"""Floating-point operations of a forward pass: products only, as torch counts them."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


class _Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what the operations inside it cost; torch's own counter would hook into the modules of all threads."""

    def __init__(self) -> None:
        from torch.utils.flop_counter import flop_registry

        super().__init__()  # type: ignore[no-untyped-call]
        self.known, self.total = flop_registry, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every operation passes here."""
        made = func(*args, **(kwargs or {}))
        if func._overloadpacket in self.known:
            self.total += self.known[func._overloadpacket](*args, **(kwargs or {}), out_val=made)
        return made


def flops(module: nn.Module, sample: Tensor) -> int:
    """Of one forward pass of sample [1, ...]."""
    with torch.no_grad(), _Count() as count:
        module(sample)
    return int(count.total)
