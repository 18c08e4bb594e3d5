"""2 x 2 max-pooling as two maxima: on a CPU twice as fast as torch's forward pass, though not as its backward one."""

import torch
from torch import Tensor, nn


class MaxPool2x2(nn.Module):
    """nn.MaxPool2d(2), for evaluation."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., h, w] -> [..., h // 2, w // 2]; an odd last row or column is left out."""
        h, w = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
        rows = torch.maximum(x[..., :h:2, :], x[..., 1:h:2, :])
        return torch.maximum(rows[..., :w:2], rows[..., 1:w:2])


def quicken(module: nn.Module) -> nn.Module:
    """Every plain nn.MaxPool2d(2) in the tree becomes a MaxPool2x2."""
    plain = [
        (parent, name)
        for parent in module.modules()
        for name, child in parent.named_children()
        if type(child) is nn.MaxPool2d
        and (child.kernel_size, child.stride) in ((2, 2), ((2, 2), (2, 2)))
        and (child.padding, child.dilation, child.ceil_mode, child.return_indices) == (0, 1, False, False)
    ]
    for parent, name in plain:
        setattr(parent, name, MaxPool2x2())
    return module
