"""How many lanes fit the memory given."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from baton import algorithms, clients, datasets
from baton.errors import BadInput
from baton.program import net_of
from baton.setting import Setting

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse(text: str) -> int:
    """Bytes from `500M`, `2GB`, `1.5GiB`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match or float(match[1]) <= 0:
        raise BadInput(f"memory: {text!r} is not a size; 500M or 2GB is right")
    return int(float(match[1]) * UNITS[match[2].upper()])


def readable(size: float) -> str:
    """A size for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def free(device: torch.device) -> int:
    """A safe share of what is free: half of main memory, four fifths of a GPU's."""
    if device.type == "cuda":
        return int(0.8 * torch.cuda.mem_get_info(device)[0])
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024 // 2
    except (OSError, KeyError):
        return 4 << 30


def per_lane(lanes: Sequence[Setting]) -> int:
    """Bytes a lane of this program needs while it trains: counted from the model's layers and the leg's tensors."""
    setting = lanes[0]
    data = datasets.load(setting.dataset, setting.clients)
    net = net_of(setting, data, torch.device("cpu"))
    sample = datasets.prepared(data, data.x[:1], net.dtype)[0]
    splits = {(s.dataset, s.partition, s.clients) for s in lanes}
    largest = max(int(np.bincount(owner[owner >= 0]).max()) for owner in (clients.owners(*split) for split in splits))
    copies = setting.participants if algorithms.build(setting.algorithm).parallel else 1
    batch = min(setting.batch_size, largest) if setting.sampling == "shuffle" else setting.batch_size
    drawn = setting.local_steps * batch
    step = batch * (sample.numel() + 4 * net.activations(sample)) + 5 * net.size()
    draws = 8 * 8 * (drawn + min(largest, 16 * drawn + 640))
    item: int = net.dtype.itemsize
    return (step * copies + 3 * net.size()) * item + draws * copies


def lanes_that_fit(each: int, memory: int) -> int:
    """How many lanes of so many bytes one chunk may hold."""
    if each > memory:
        raise BadInput(f"memory: {readable(memory)} is too little; one lane of this setting needs {readable(each)}")
    return memory // each
