"""Lane-steps a second on a GPU, the FLOP/s they are, and what the GPU could do at most.

`.venv/bin/python bench/gpu.py --data DIR --out gpu.json`. Training through the engine, as a sweep does it, sequential
unless another algorithm is named: S = 10, K = 5, b = 20, clipping, weight decay and augmentation included, no
evaluation. FLOP are those of convolutions and linear layers by their definition (Winograd's need fewer): forward two a
multiplication, backward twice that, but no gradient for the first layer's input.

Bytes are the least that must move in a step if layers do not keep on chip what they make. Weights: read forward and
backward, gradients written and read, weights read and written by the update. What a convolution, a linear or a pooling
layer puts out: written and read forward, read backward, its gradient written and read.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from baton.models import factory
from baton.simulate.arithmetic import PRECISIONS, arithmetic, cores, precision_of
from ours import rounds_of
from timing import Side, log, rate, wait
from work import DATA, Work, load

HEAD = ("model", "algorithm", "lanes", "lane-steps/s", "ms a round", "TFLOP/s", "of matmul", "TB/s at least", "of copy")


class Cost(NamedTuple):
    """Of one step of one lane."""

    flop: int
    bytes: int


def cost(work: Work, precision: str) -> Cost:
    """Counted from the shapes of the layers."""
    s, data = work.setting(0), load(work.dataset)
    net = factory(s.model, tuple(data.x.shape[1:]), data.classes)()
    products: list[int] = []
    put_out: list[int] = []

    def count(layer: nn.Module, _inputs: object, output: Tensor) -> None:
        put_out.append(output.numel())
        if isinstance(layer, nn.Conv2d | nn.Linear):
            products.append(output.numel() * layer.weight[0].numel())

    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear | nn.MaxPool2d):
            layer.register_forward_hook(count)
    net(torch.zeros(1, *data.x.shape[1:]))
    flop = 2 * (3 * sum(products) - products[0]) * s.batch_size
    parameters = sum(p.numel() for p in net.parameters())
    size = 2 if precision == "bf16" else 4
    return Cost(flop, 6 * 4 * parameters + 5 * size * s.batch_size * sum(put_out))


def seconds(work: Callable[[], object], device: torch.device, times: int = 10) -> float:
    """The best of three timings."""
    work()
    best = float("inf")
    for _ in range(3):
        wait(device)
        began = time.perf_counter()
        for _ in range(times):
            work()
        wait(device)
        best = min(best, (time.perf_counter() - began) / times)
    return best


def ceilings(device: torch.device) -> dict[str, float]:
    """A big copy in TB/s, and a big product of matrices in TFLOP/s at each precision."""
    big = device.type == "cuda"
    source = torch.ones((4 << 30) if big else (64 << 20), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    found = {"copy": 2 * source.numel() / seconds(partial(target.copy_, source), device) / 1e12}
    n = 8192 if big else 1024
    for precision in PRECISIONS:
        kind = torch.bfloat16 if precision == "bf16" else torch.float32
        a, b = (torch.randn(n, n, device=device, dtype=kind) for _ in range(2))
        with arithmetic(precision):
            torch.set_num_threads(cores())  # a CPU has its own ceiling
            found[precision] = 2 * n**3 / seconds(partial(torch.matmul, a, b), device) / 1e12
    return found


def measure(work: Work, lanes: int, precision: str, given: argparse.Namespace) -> dict[str, Any]:
    """One row."""
    if work.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(work.device)
    settings = [work.setting(i).replace(participants=given.participants) for i in range(lanes)]
    side = Side("baton", lanes, 1, rounds_of(settings, work.device, precision))
    rate(side, 0, work.device)  # compiles, captures
    rate(side, 0, work.device)
    rates = sorted(rate(side, given.seconds / given.repeats, work.device) for _ in range(given.repeats))
    memory = torch.cuda.max_memory_allocated(work.device) if work.device.type == "cuda" else 0
    steps = given.participants * settings[0].local_steps
    middle, one = rates[len(rates) // 2] * steps, cost(work, precision)
    return {
        "model": work.model,
        "dataset": work.dataset,
        "algorithm": work.algorithm,
        "device": work.device.type,
        "precision": precision,
        "by": "baton",
        "lanes": lanes,
        "lane_rounds_per_s": middle / steps,
        "lane_steps_per_s": middle,
        "lane_steps_per_s_min": rates[0] * steps,
        "lane_steps_per_s_max": rates[-1] * steps,
        "ms_per_round": 1000 * lanes * steps / middle,
        "flop_per_step": one.flop,
        "bytes_per_step": one.bytes,
        "tflop_per_s": middle * one.flop / 1e12,
        "tbyte_per_s": middle * one.bytes / 1e12,
        "memory_bytes": memory,
    }


def line(row: dict[str, Any], most: dict[str, float]) -> str:
    """A row of the table."""
    flop, moved = row["tflop_per_s"], row["tbyte_per_s"]
    cells = [row["model"], row["algorithm"], str(row["lanes"])]
    cells += [f"{row['lane_steps_per_s']:,.0f}", f"{row['ms_per_round']:.1f}"]
    cells += [f"{flop:.3g}", f"{flop / most[row['precision']]:.1%}", f"{moved:.3g}", f"{moved / most['copy']:.1%}"]
    return f"| {' | '.join(cells)} | {row['memory_bytes'] / 2**30:.1f} |"


def arguments() -> argparse.Namespace:
    """What was asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="*", choices=list(DATA), default=["vgg9", "resnet18", "lenet5", "cnn"])
    options.add_argument("--lanes", type=int, nargs="*", default=[1, 6, 24, 96, 384])
    options.add_argument("--algorithms", nargs="*", default=["sequential"], help="specs, e.g. ssl:cut=0.5")
    options.add_argument("--participants", type=int, default=10, help="S: fewer make shorter rounds")
    options.add_argument("--seconds", type=float, default=3.0, help="of all timings of a row, each at least one round")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--clip", type=float, default=10.0)
    options.add_argument("--weight-decay", type=float, default=1e-4)
    options.add_argument("--precision", default="auto", help="fp32, tf32, bf16, or auto")
    options.add_argument("--device", default="cuda")
    options.add_argument("--data", help="folder of the data sets (BATON_DATA); noise stands for what is missing")
    options.add_argument("--out", type=Path)
    return options.parse_args()


def main() -> None:
    """Print the table."""
    given = arguments()
    if given.data:
        os.environ["BATON_DATA"] = given.data
    device = torch.device(given.device)
    precision = precision_of(given.precision, device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    most = ceilings(device)
    tops = ", ".join(f"{kind} {most[kind]:.3g} TFLOP/s" for kind in PRECISIONS)
    print(f"{name}, torch {torch.__version__}, {precision}; copy {most['copy']:.3g} TB/s; matmul {tops}\n")
    print(f"| {' | '.join(HEAD)} | GiB |\n|{'---|' * (len(HEAD) + 1)}", flush=True)
    rows: list[dict[str, Any]] = []
    for model, algorithm in product(given.models, given.algorithms):
        work = Work(model, algorithm, given.clip, given.weight_decay, device)
        for lanes in given.lanes:
            log(f"{model}, {algorithm}, {lanes} lanes")
            try:
                rows.append(measure(work, lanes, precision, given))
            except torch.OutOfMemoryError:
                log(f"{model}, {algorithm}, {lanes} lanes: not enough memory")
                break
            print(line(rows[-1], most), flush=True)
            if given.out:
                found = {"device": name, "torch": torch.__version__, "ceilings": most, "rows": rows}
                given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
