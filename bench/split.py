"""Split legs beside whole ones: lane-steps a second, in C and in plain PyTorch, on a CPU.

`.venv/bin/python bench/split.py --data DIR`. Rounds through the engine as in gpu.py (S = 10, K = 5, b = 20, clip 10,
weight decay, no evaluation); all columns of a row in turn, in one process. Below a row: what a split leg in C takes, as
a share of the whole leg's speed, least and most over the repeats.
"""

import argparse
import os
import statistics
from collections.abc import Callable

import torch

from ours import ours
from timing import Side, log, rate
from work import Work

CUTS = {"mlp": "1", "lenet5": "0.5", "cnn": "5", "vgg9": "11"}
CPU = torch.device("cpu")
STEPS = 50  # of one lane's round
COLUMNS = {  # head -> algorithm, in C or not
    "SFL in C": ("sequential", True),
    "SSL in C": ("ssl:cut={}", True),
    "SSL in PyTorch": ("ssl:cut={}", False),
    "PFL in C": ("parallel", True),
    "SplitFed in C": ("splitfed:cut={}", True),
    "SplitFed in PyTorch": ("splitfed:cut={}", False),
}


def rounds(model: str, spec: str, native: bool, lanes: int) -> Callable[[], None]:
    """What trains a round; which legs do it is settled when they are made."""
    os.environ["BATON_NATIVE"] = str(int(native))
    return ours(Work(model, spec.format(CUTS[model]), clip=10.0, weight_decay=1e-4, device=CPU), lanes)


def measure(model: str, lanes: int, given: argparse.Namespace) -> dict[str, list[float]]:
    """Lane-steps a second by column, one a repeat."""
    sides = [Side(head, lanes, 1, rounds(model, *how, lanes)) for head, how in COLUMNS.items()]
    found: dict[str, list[float]] = {side.by: [] for side in sides}
    for side in sides:
        rate(side, 0, CPU)
    for _ in range(given.repeats):
        for side in sides:
            found[side.by].append(STEPS * rate(side, given.seconds, CPU))
    return found


def shares(found: dict[str, list[float]], split: str, whole: str) -> str:
    """One column as a share of another."""
    ratios = [mine / theirs for mine, theirs in zip(found[split], found[whole], strict=True)]
    return f"{split} / {whole} {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="*", choices=list(CUTS), default=["mlp", "lenet5", "cnn"])
    options.add_argument("--lanes", type=int, nargs="*", default=[1, 8])
    options.add_argument("--seconds", type=float, default=0.5, help="of each timing, and at least one round")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--data", help="folder of the data sets (BATON_DATA); noise stands for what is missing")
    given = options.parse_args()
    if given.data:
        os.environ["BATON_DATA"] = given.data
    print(f"| model | cut | lanes | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 3)}", flush=True)
    for model in given.models:
        for lanes in given.lanes:
            log(f"{model}, {lanes} lanes")
            found = measure(model, lanes, given)
            cells = [f"{statistics.median(values):,.0f}" for values in found.values()]
            print(f"| {model} | {CUTS[model]} | {lanes} | {' | '.join(cells)} |", flush=True)
            log(f"{shares(found, 'SSL in C', 'SFL in C')}; {shares(found, 'SplitFed in C', 'PFL in C')}")


if __name__ == "__main__":
    main()
