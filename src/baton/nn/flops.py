"""Floating-point operations of a forward pass: matrix products and convolutions, two for every multiplication."""

from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

PRODUCTS = {functional.linear, torch.matmul, torch.mm, torch.bmm, Tensor.matmul, Tensor.mm, Tensor.bmm}
PRODUCTS |= {Tensor.__matmul__}  # x @ y
CONVOLUTIONS = {torch.conv1d, torch.conv2d, torch.conv3d}
TRANSPOSED = {torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d}


class _Count(TorchFunctionMode):  # torch's own counter would load its compiler, which takes a second
    """Adds up what the calls inside it cost."""

    total = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every call passes here."""
        made = func(*args, **(kwargs or {}))
        if func in PRODUCTS:
            self.total += 2 * made.numel() * args[0].shape[-1]
        elif func in CONVOLUTIONS | TRANSPOSED:
            places = (args[0] if func in TRANSPOSED else made).shape
            self.total += 2 * places[0] * prod(places[2:]) * args[1].numel()
        return made


def flops(module: nn.Module, sample: Tensor) -> int:
    """Of one forward pass of sample [1, ...]."""
    with torch.no_grad(), _Count() as count:
        module(sample)
    return int(count.total)
