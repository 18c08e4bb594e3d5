"""Kernels compiled for Hopper on a machine without a GPU, and what has to hold for each of them.

For a process of its own, before anything imports `baton.nn.cuda.early`: there a Hopper GPU seems to be here, and who
launches a kernel compiles it instead. Tensors are of torch's device `meta`, which have shapes and take no memory.
"""

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import torch

from baton.nn import cuda

SHARED = 227 << 10  # bytes of shared memory that one program may have
BODY = re.compile(r"\.entry .*?\n\{(.*)\n\}", re.DOTALL)
MEMORY = re.compile(r"\.global\b|\bcp\.async|\bbra\b")  # or a branch, behind which some might not wait


class Made(NamedTuple):
    """One kernel as it was compiled."""

    name: str
    ptx: str
    shared: int
    machine: bool  # whether there is code for the machine
    early: bool  # whether it is launched while the one before it ends

    def check(self) -> None:
        """It fits, and waits for the kernel before it before it touches memory."""
        assert self.machine, f"{self.name}: no cubin"
        assert self.shared <= SHARED, f"{self.name}: {self.shared} bytes of shared memory"
        body = BODY.search(self.ptx)
        assert body is not None, f"{self.name}: no entry"
        before, wait, _ = body[1].partition("griddepcontrol.wait")
        assert bool(wait) == self.early, f"{self.name}: waits, or is launched early, but not both"
        found = MEMORY.search(before) if self.early else None
        assert found is None, f"{self.name}: {found and found[0]} before it waits"


@contextmanager
def hopper() -> Iterator[dict[str, Made]]:
    """What is launched inside is compiled and kept here, by its code; nothing runs."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import JITFunction, KernelInterface

    made: dict[str, Made] = {}
    driver = mock.Mock()
    driver.get_current_target.return_value = GPUTarget("cuda", 90, 32)
    driver.get_current_device.return_value = driver.get_current_stream.return_value = 0
    triton.runtime.driver.set_active(driver)

    def compiles(kernel: Any, grid: tuple[int, ...], *given: object, **constants: object) -> None:
        found = kernel.warmup(*given, grid=grid, **constants)
        ptx, early = found.asm["ptx"], bool(constants.get("launch_pdl"))
        made[ptx] = Made(kernel.fn.__name__, ptx, found.metadata.shared, "cubin" in found.asm, early)

    def launcher(kernel: Any, grid: tuple[int, ...]) -> object:
        assert isinstance(kernel, JITFunction), "interpreted"
        return partial(compiles, kernel, grid)

    here = mock.patch.multiple(torch.cuda, is_available=lambda: True, get_device_capability=lambda *_: (9, 0))
    with here:
        early = importlib.import_module("baton.nn.cuda.early")
    assert early.EARLY.value, "no kernel is launched early"
    with mock.patch.object(KernelInterface, "__getitem__", launcher):
        yield made


def launch_all(kernels: "cuda.Kernels", lanes: int, batch: int) -> None:
    """Whatever a leg of this model may launch."""
    sample, sums, meta = kernels.recipe.sample, kernels.sums, torch.device("meta")
    flat, other = (torch.empty(lanes, kernels.size, dtype=sums, device=meta) for _ in range(2))
    x = kernels.channels_last(torch.empty(lanes, batch, *sample, device=meta))
    y, weight = torch.empty(lanes, batch, dtype=torch.int64, device=meta), torch.empty(lanes, batch, device=meta)
    key, number = torch.empty(lanes, dtype=torch.int64, device=meta), torch.empty(lanes, device=meta)
    rule, operands = cuda.Rule(number, number, number), kernels.operands(flat)
    full = rule._replace(pull=(number, other[:1]), shift=other, momentum=(number, other))
    for own in (rule, full):
        kernels.step(flat, operands, x, y, weight, key, own)
    kernels.sgd(flat, other, rule)
    kernels.logits(flat, operands, x[:1])
    for shift in (None, other):
        kernels.direction(flat[:1], other, shift, number)
    if len(sample) == 3:
        pool, scale = torch.empty(9, *sample, dtype=torch.uint8, device=meta), (1.0,) * sample[0]
        for drawn in (None, key):
            kernels.images(pool, y, drawn, scale, scale)
