"""Where and how numbers are computed: device, precision of products, threads."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import torch

from baton import limits
from baton.errors import BadInput

PRECISIONS = ("fp32", "tf32", "bf16")  # of the operands of matrix products; sums and parameters stay float32

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def device_of(name: str) -> torch.device:
    """`auto` takes a GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise BadInput(f"device: {name!r}; auto, cpu or cuda is right")
    if name == "cuda" and not torch.cuda.is_available():
        raise BadInput("device: 'cuda' is not here; auto or cpu is right")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def precision_of(name: str, device: torch.device) -> str:
    """`auto` takes the fastest whose training curves are those of fp32: bf16 on a GPU, fp32 on a CPU."""
    if name not in ("auto", *PRECISIONS):
        raise BadInput(f"precision: {name!r}; auto, {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]} is right")
    if device.type == "cpu" and name in ("tf32", "bf16"):
        raise BadInput(f"precision: {name!r} needs a GPU; fp32 is right on a CPU")
    return name if name != "auto" else "bf16" if device.type == "cuda" else "fp32"


def cores() -> int:
    """How many this process may use; a container's quota and OMP_NUM_THREADS make it fewer."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    asked = int(wanted) if wanted.isdecimal() and int(wanted) > 0 else mine
    return min(mine, asked, limits.quota() or mine)


def _keep_memory() -> None:
    """Large blocks that are freed stay with the process: glibc would hand them back and pay for each page again."""
    with suppress(OSError, AttributeError):
        tell = ctypes.CDLL(None).mallopt
        tell(_MMAP_THRESHOLD, 1 << 30)
        tell(_TRIM_THRESHOLD, (1 << 31) - 1)


@contextmanager
def arithmetic(precision: str) -> Iterator[None]:
    """Torch's own operations: the same result each time, at this precision, on one thread.

    Lanes' operations are small: a second thread inside one gains little, and loses a lot on a busy machine.
    """
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic
    _keep_memory()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    cudnn.allow_tf32, cudnn.deterministic = precision != "fp32", True
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(before[0])
        cudnn.allow_tf32, cudnn.deterministic = before[1:]


class How(NamedTuple):
    """How one chunk is computed."""

    device: torch.device
    precision: str = "fp32"
    threads: int = 1  # cores for its lanes
    aside: bool = False  # beside others, in a thread of its own

    @contextmanager
    def place(self) -> Iterator[None]:
        """Where a chunk that trains beside others does so: on a GPU in its own stream."""
        if not self.aside:
            yield
            return
        torch.set_num_threads(1)  # of this thread
        if self.device.type == "cpu":
            yield
            return
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            yield
