"""How fast rounds go, and how long things take."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch


class Side(NamedTuple):
    """One of those that are timed in turn."""

    by: str  # bare, baton or jax
    lanes: int
    threads: int  # torch's; XLA has its own
    round: Callable[[], None]  # trains one round of all lanes


def wait(device: torch.device) -> None:
    """Until the device has done all it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rate(side: Side, seconds: float, device: torch.device) -> float:
    """Lane-rounds a second, over so many seconds and at least one round."""
    torch.set_num_threads(side.threads)
    wait(device)
    began, count = time.perf_counter(), 0
    while True:
        side.round()
        count += 1
        if time.perf_counter() - began >= seconds:
            wait(device)
            return side.lanes * count / (time.perf_counter() - began)


def found(what: str, unit: str, values: Sequence[float]) -> dict[str, Any]:
    """One of the small costs, as small.json holds it."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return {"what": what, "unit": unit, "median": middle, "min": least, "max": most, "repeats": len(values)}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The small costs in Markdown."""
    lines = ["| what | | median (min to max) | repeats |", "|---|---|---|---|"]
    for row in rows:
        spread = f"{row['median']:.3g} ({row['min']:.3g} to {row['max']:.3g})"
        lines.append(f"| {row['what']} | {row['unit']} | {spread} | {row['repeats']} |")
    return "\n".join(lines)


def log(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)
