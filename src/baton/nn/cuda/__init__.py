"""Training steps over lanes on a CUDA device, by kernels that know the lane axis.

Triton is imported when something is compiled, not before.
"""

from collections.abc import Collection
from importlib.util import find_spec
from typing import TYPE_CHECKING

from baton.caches import keep_kernels
from baton.nn.cuda.rule import Rule
from baton.nn.graph import Layer
from baton.notice import once

if TYPE_CHECKING:
    from baton.nn.cuda.kernels import Kernels

__all__ = ["Kernels", "Rule", "compile"]


def compile(
    layers: list[Layer],
    sizes: dict[str, tuple[int, ...]],
    sample: tuple[int, ...],
    precision: str,
    apart: Collection[str] = (),
) -> "Kernels | None":
    """The kernels of a model, or None where one of its layers has none, or there is no Triton.

    sizes: of one lane's parameters; sample: the shape of one input, [C, H, W] or [n]; precision: bf16, tf32,
    fp32 or fp64; apart: leaves, of whole layers, whose gradients are clipped by a norm of their own.
    """
    from baton.nn.cuda.recipe import recipe

    made = recipe(layers, sizes, sample, apart)
    if made is None:
        return None
    if find_spec("triton") is None:
        once("training by PyTorch's own operations, not by kernels, which are faster: no package 'triton' found")
        return None
    keep_kernels()
    from baton.nn.cuda.kernels import Kernels

    return Kernels(made, precision)


def __getattr__(name: str) -> object:
    if name == "Kernels":
        from baton.nn.cuda.kernels import Kernels

        return Kernels
    raise AttributeError(name)
