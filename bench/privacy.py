"""What clip and noise on legs cost in time: rounds with and without, side by side in one run."""

import sys
import time

import torch

from baton.setting import Setting
from baton.simulate.arithmetic import arithmetic, cores
from baton.simulate.engine import Program, advance, first

LANES, TIMES, ROUNDS = 24, 5, 4
COMMON = {"dataset": "digits", "clients": 100, "participants": 10, "batch_size": 20, "rounds": ROUNDS}
MODELS = ("logistic", "mlp:hidden=200")


def program(model: str, algorithm: str, dp: str) -> Program:
    """Digits at 100 clients."""
    each = {**COMMON, "model": model, "algorithm": algorithm, "dp": dp, "eval_every": ROUNDS}
    return Program([Setting(**each, seed=seed) for seed in range(LANES)], torch.device("cpu"), threads=cores())


def seconds(program: Program) -> float:
    """Some rounds."""
    began = time.perf_counter()
    for _ in advance(program, first(program)):
        pass
    return time.perf_counter() - began


def main() -> None:
    """The fastest of some, in turns, so that a busy machine slows both."""
    algorithms = sys.argv[1:] or ["sequential", "parallel"]
    with arithmetic("fp32"):
        for model in MODELS:
            for algorithm in algorithms:
                plain, noisy = (program(model, algorithm, dp) for dp in ("none", "gaussian"))
                took = [(seconds(plain), seconds(noisy)) for _ in range(TIMES)]
                ratios = sorted(b / a for a, b in took)
                a, b = (min(each[i] for each in took) for i in (0, 1))
                spread = f"{ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) times as long"
                print(f"{model:16} {algorithm:12} {a:.3f} s without, {b:.3f} s with: {spread}")


if __name__ == "__main__":
    main()
