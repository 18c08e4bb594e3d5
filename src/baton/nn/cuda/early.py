# mypy: ignore-errors
"""Kernels that are set up while the one before them ends: programmatic dependent launch, on Hopper and later.

Every kernel calls `after` before it reads or writes memory, and is launched by `programs`. From there on all that was
launched before it is complete, since those waited in the same way.
"""

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl
from triton.backends import backends


def _able() -> bool:
    """Whether the device and this Triton know of it."""
    if not torch.cuda.is_available() or torch.version.hip or torch.cuda.get_device_capability() < (9, 0):
        return False
    return "nvidia" in backends and hasattr(tl.extra, "cuda") and hasattr(tl.extra.cuda, "gdc_wait")


EARLY = tl.constexpr(_able() and not triton.knobs.runtime.interpret)


def programs(kernel, grid: tuple[int, ...]) -> Callable[..., object]:
    """The kernel, to be called with its arguments: one program a place of the grid."""
    return partial(kernel[grid], launch_pdl=True) if EARLY.value else kernel[grid]


@triton.jit
def after():
    """Wait for the kernel before this one; the one after it may be set up meanwhile."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
