"""The field's methods beside plain parallel and sequential training, at the same number of steps: lane-rounds a second.

`.venv/bin/python bench/methods.py`, on a GPU with --device cuda. All rows of a model are timed in turn, several times
over; a ratio is between neighbours in time. Above 1: faster than what it is compared with.
"""

import argparse
import os
import statistics

import torch

from baton.simulate.arithmetic import precision_of
from ours import rounds_of
from timing import Side, log, rate
from work import DATA, Work

AGAINST = {
    "fedprox:mu=0.1": "parallel",
    "scaffold": "parallel",
    "fedavgm": "parallel",
    "fedseq:groups=2": "sequential",
    "fedseq:groups=5": "sequential",
    "scaffold:option=1": "parallel",
    "scaffold:of=sequential": "sequential",
    "feddyn": "parallel",
    "fednova": "parallel",
    "fedadam": "parallel",
    "fedadam:of=sequential": "sequential",
    "sequential:mu=0.1": "sequential",
    "sequential:ema=0.5": "sequential",
    "fedseqinter:groups=5,every=10": "sequential",
    "feddc": "parallel",
    "switch:after=5": "parallel",
    "amplified:every=5,server_lr=1.5": "parallel",
    "amplified_scaffold:every=5": "parallel",
    "pairgrab": "sequential",
    "flgrab": "parallel",
    "ewc": "sequential",
}


def arguments() -> argparse.Namespace:
    """What was asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="*", choices=list(DATA), default=["mlp", "lenet5", "vgg9"])
    options.add_argument("--methods", nargs="*", default=list(AGAINST))
    options.add_argument("--lanes", type=int, default=24)
    options.add_argument("--clients", type=int, default=500, help="M; what clients keep takes memory in M")
    options.add_argument("--clip", type=float, default=10.0)
    options.add_argument("--seconds", type=float, default=1.0, help="of each timing, and at least one round")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--device", default="cpu")
    options.add_argument("--data", help="folder of the data sets (BATON_DATA); noise stands for what is missing")
    return options.parse_args()


def main() -> None:
    """Print the table."""
    given = arguments()
    if given.data:
        os.environ["BATON_DATA"] = given.data
    device = torch.device(given.device)
    precision = precision_of("auto", device)
    print("| model | method | lane-rounds/s | beside | ratio (min to max) |\n|---|---|---|---|---|", flush=True)
    for model in given.models:
        every = list(dict.fromkeys([*(AGAINST[m] for m in given.methods), *given.methods]))
        sides = {name: _side(model, name, given, device, precision) for name in every}
        for name, side in sides.items():
            log(f"{model}, {name}")
            rate(side, 0, device), rate(side, 0, device)
        found = {name: [] for name in every}  # type: dict[str, list[float]]
        for _ in range(given.repeats):
            for name, side in sides.items():
                found[name].append(rate(side, given.seconds, device))
        for name in every:
            plain = AGAINST.get(name, name)
            ratios = [mine / theirs for mine, theirs in zip(found[name], found[plain], strict=True)]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"| {model} | {name} | {statistics.median(found[name]):.4g} | {plain} | {spread} |", flush=True)
        del sides
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _side(model: str, name: str, given: argparse.Namespace, device: torch.device, precision: str) -> Side:
    work = Work(model, name, given.clip, 1e-4, device)
    lanes = [work.setting(i).replace(clients=given.clients) for i in range(given.lanes)]
    return Side(name, given.lanes, 1, rounds_of(lanes, device, precision))


if __name__ == "__main__":
    main()
