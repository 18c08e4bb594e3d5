"""Two trees of Baton side by side: `python bench/trees.py OLD NEW --models mlp lenet5`, before and after a change.

A process each, timed in turn, so that what else the machine does falls on both. Ratios above 1: the second is faster.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
from pathlib import Path

WORKER = """
import sys, torch
from ours import ours
from timing import Side, rate
from work import Work
model, algorithm, lanes, clip, device = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
where = torch.device(device)
side = Side("baton", lanes, 1, ours(Work(model, algorithm, clip, 1e-4, where), lanes))
rate(side, 0, where), rate(side, 0, where)
print("ready", flush=True)
for line in sys.stdin:
    print(rate(side, float(line), where), flush=True)
"""


class Tree:
    """One tree's process."""

    def __init__(self, root: Path, model: str, algorithm: str, given: argparse.Namespace) -> None:
        path = os.pathsep.join([str(root / "src"), str(root / "bench")])
        words = [model, algorithm, str(given.lanes), str(given.clip), given.device]
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, *words],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", root

    def rate(self, seconds: float) -> float:
        """Lane-rounds a second."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Its process too."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def arguments() -> argparse.Namespace:
    """What was asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("old", type=Path)
    options.add_argument("new", type=Path)
    options.add_argument("--models", nargs="*", default=["mlp", "lenet5", "vgg9"])
    options.add_argument("--algorithms", nargs="*", default=["sequential", "parallel"])
    options.add_argument("--lanes", type=int, default=24)
    options.add_argument("--clip", type=float, default=10.0)
    options.add_argument("--seconds", type=float, default=1.0, help="of each timing, and at least one round")
    options.add_argument("--repeats", type=int, default=9)
    options.add_argument("--device", default="cpu")
    return options.parse_args()


def main() -> None:
    """Print the table."""
    given = arguments()
    print("| model | algorithm | lanes | before | after | ratio (min to max) |\n|---|---|---|---|---|---|", flush=True)
    for model, algorithm in itertools.product(given.models, given.algorithms):
        trees = [Tree(root, model, algorithm, given) for root in (given.old, given.new)]
        pairs = [[tree.rate(given.seconds) for tree in trees] for _ in range(given.repeats)]
        for tree in trees:
            tree.end()
        ratios = [new / old for old, new in pairs]
        old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        print(f"| {model} | {algorithm} | {given.lanes} | {old:.3g} | {new:.3g} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
