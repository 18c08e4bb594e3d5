"""What a round costs with M = 1,000,000 clients, over what it costs with M = 500; S = 10 in both.

Each client holds one sample, so that both do the same work. (MNIST would leave most of a million clients without any,
and those are not trained.)
"""

from collections.abc import Callable
from typing import Any

import torch

from baton.setting import Setting
from ours import THREADS, rounds_of
from timing import Side, found, log, rate, table
from work import NEVER

FEW, MANY = 500, 1_000_000
CPU = torch.device("cpu")


def quadratic(clients: int) -> Setting:
    """In two dimensions."""
    return Setting(dataset="quadratic_random:dim=2", clients=clients, participants=10, rounds=NEVER, eval_every=NEVER)


def logistic(clients: int) -> Setting:
    """Batches of b = 20: draws with replacement."""
    return Setting(
        dataset="noise:one_each",
        partition="iid",
        model="logistic",
        clients=clients,
        participants=10,
        rounds=NEVER,
        eval_every=NEVER,
        sampling="replacement",
        lr=0.001,
    )


def ratios(setting: Callable[[int], Setting], seconds: float, repeats: int) -> list[float]:
    """Time a round with many clients over that with few, one after the other."""
    few, many = (Side("baton", 1, THREADS, rounds_of([setting(m)], CPU)) for m in (FEW, MANY))
    for side in (few, many):
        rate(side, 0, CPU)
    return [rate(few, seconds, CPU) / rate(many, seconds, CPU) for _ in range(repeats)]


def measure(seconds: float = 0.7, repeats: int = 5) -> list[dict[str, Any]]:
    """Quadratics and logistic regression."""
    rows = []
    for name, setting in (("quadratic_random:dim=2", quadratic), ("logistic, 1 x 28 x 28", logistic)):
        log(f"a million clients: {name}")
        what = f"time a round, M = {MANY:,} over M = {FEW}: {name}"
        rows.append(found(what, "ratio", ratios(setting, seconds, repeats)))
    return rows


if __name__ == "__main__":
    print(table(measure()))
