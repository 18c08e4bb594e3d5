"""2 x 2 max-pooling as two maxima: on a CPU twice as fast as torch's forward pass, though not as its backward one."""

import torch
from torch import Tensor, nn

from baton.nn.swap import swap


class MaxPool2x2(nn.Module):
    """nn.MaxPool2d(2), for evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., h, w] -> [..., h // 2, w // 2]; an odd last row or column is left out."""
        h, w = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
        rows = torch.maximum(x[..., :h:2, :], x[..., 1:h:2, :])
        return torch.maximum(rows[..., :w:2], rows[..., 1:w:2])


def quicken(module: nn.Module) -> nn.Module:
    """Every plain nn.MaxPool2d(2) in the tree becomes a MaxPool2x2."""
    swap(module, lambda child: MaxPool2x2() if _plain(child) else None)
    return module


def _plain(layer: nn.Module) -> bool:
    return (
        type(layer) is nn.MaxPool2d
        and (layer.kernel_size, layer.stride) in ((2, 2), ((2, 2), (2, 2)))
        and (layer.padding, layer.dilation, layer.ceil_mode, layer.return_indices) == (0, 1, False, False)
    )
