"""What every site's metric costs: an evaluation as it was, and with 500 sites measured, side by side in one run."""

import sys
import time

import torch

from baton.setting import Setting
from baton.simulate.arithmetic import arithmetic, cores
from baton.simulate.engine import Program, first

LANES, TIMES = 24, 3
COMMON = {"dataset": "mnist", "model": "lenet5", "partition": "exdir:C=2,alpha=10", "clients": 500, "participants": 10}


def program(metrics: str, lanes: int) -> Program:
    """LeNet-5 on MNIST at 500 clients of two classes each."""
    settings = [Setting(**COMMON, metrics=metrics, seed=seed) for seed in range(lanes)]
    return Program(settings, torch.device("cpu"), threads=cores())


def seconds(program: Program) -> float:
    """One evaluation: test set, participants, random clients."""
    state, order = first(program).state.model, program.order(0)
    began = time.perf_counter()
    program.evaluate(state, 1, order)
    return time.perf_counter() - began


def main() -> None:
    """The fastest of some, in turns, so that a busy machine slows both."""
    lanes = int(sys.argv[1]) if len(sys.argv) > 1 else LANES
    with arithmetic("fp32"):
        asked = {
            name: program(name, lanes) for name in ("none", "accuracy", "accuracy,auc", "accuracy,auc,f1,calibration")
        }
        took: dict[str, list[float]] = {name: [] for name in asked}
        for _ in range(TIMES):
            for name, each in asked.items():
                took[name].append(seconds(each))
    for name, times in took.items():
        print(f"{name:28} {min(times):7.3f} s   x {min(times) / min(took['none']):.3f}")


if __name__ == "__main__":
    main()
