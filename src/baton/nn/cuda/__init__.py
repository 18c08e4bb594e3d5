"""Training steps over lanes on a CUDA device, by kernels that know the lane axis.

Triton is imported when something is compiled, not before.
"""

from typing import TYPE_CHECKING

from baton.nn.cuda.rule import Rule
from baton.nn.graph import Layer

if TYPE_CHECKING:
    from baton.nn.cuda.kernels import Kernels

__all__ = ["Kernels", "Rule", "compile"]


def compile(
    layers: list[Layer], sizes: dict[str, tuple[int, ...]], sample: tuple[int, ...], precision: str
) -> "Kernels | None":
    """The kernels of a model, or None where one of its layers has none.

    sizes: of one lane's parameters; sample: the shape of one input, [C, H, W] or [n]; precision: bf16, tf32 or fp32.
    """
    from baton.nn.cuda.recipe import recipe

    made = recipe(layers, sizes, sample)
    if made is None:
        return None
    from baton.nn.cuda.kernels import Kernels

    return Kernels(made, precision)


def __getattr__(name: str) -> object:
    if name == "Kernels":
        from baton.nn.cuda.kernels import Kernels

        return Kernels
    raise AttributeError(name)
