"""How a chunk is computed, as far as anybody may want to know: what can change the last bits, and where it was."""

import platform
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

import baton
from baton.nn.native import build
from baton.simulate.arithmetic import How
from baton.simulate.program import Program

PASSING = ("threads", "host", "python")  # of no consequence to the runs themselves, or laid down with their chunk


def facts(program: Program, how: How) -> dict[str, str]:
    """Way, threads and compiler of a chunk, and the machine."""
    found = {"way": program.legs.way, "precision": how.precision, "threads": str(how.threads), **machine(how.device)}
    return found | ({"compiler": build.compiler()} if program.legs.way == "C" else {})


def machine(device: torch.device) -> dict[str, str]:
    """Device, processor, host and versions."""
    return {
        "device": device.type,
        "processor": str(torch.cuda.get_device_name(device)) if device.type == "cuda" else _processor(),
        "host": socket.gethostname(),
        "baton": baton.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def lasting(found: dict[str, str]) -> dict[str, str]:
    """What stays with a run."""
    return {key: value for key, value in found.items() if key not in PASSING}


@cache
def _processor() -> str:
    """The CPU's name, and what torch uses of it."""
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"
