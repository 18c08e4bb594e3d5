"""Lane-rounds a second on digits, beside a plain PyTorch loop: `make bench`.

Both do the same work: 20 clients (ExDir(2, 10)), S = 5, K = 5, b = 20, shuffled batches, SGD, no evaluation. The plain
loop is one run as one would write it: torch.optim.SGD, the data as one tensor, no DataLoader. Each row takes its two
timings in turn, several times, and gives the median of the ratios, because machines are noisy.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from baton import clients, datasets
from baton.engine import Program, Simulation
from baton.lanes import Params
from baton.models import factory
from baton.setting import Setting

CPU = torch.device("cpu")


def setting(model: str, algorithm: str, seed: int) -> Setting:
    """The work both sides do."""
    return Setting(
        model=model, algorithm=algorithm, seed=seed, partition="exdir:C=2,alpha=10", clients=20, participants=5, lr=0.03
    )


def plain(model: str, algorithm: str) -> Callable[[], None]:
    """One round of the bare loop."""
    s = setting(model, algorithm, 1)
    data, owner = (
        datasets.load(s.dataset, s.clients),
        torch.from_numpy(clients.owners(s.dataset, s.partition, s.clients)),
    )
    held = [(owner == m).nonzero().squeeze(1) for m in range(s.clients)]
    net = factory(s.model, tuple(data.x.shape[1:]), data.classes)()
    loss_of = nn.CrossEntropyLoss()

    def leg(net: nn.Module, mine: torch.Tensor) -> None:
        optimizer, done = torch.optim.SGD(net.parameters(), lr=s.lr), 0
        while done < s.local_steps:
            for batch in torch.split(mine[torch.randperm(len(mine))], s.batch_size)[: s.local_steps - done]:
                optimizer.zero_grad()
                loss_of(net(data.x[batch]), data.y[batch]).backward()
                optimizer.step()
                done += 1

    def round() -> None:
        order = torch.randperm(s.clients)[: s.participants].tolist()
        if algorithm == "sequential":
            for m in order:
                leg(net, held[m])
            return
        results = []
        for m in order:
            local = copy.deepcopy(net)
            leg(local, held[m])
            results.append(nn.utils.parameters_to_vector(local.parameters()))
        nn.utils.vector_to_parameters(torch.stack(results).mean(0).detach(), net.parameters())

    return round


def batched(model: str, algorithm: str, lanes: int) -> Callable[[], None]:
    """One round of all lanes through the engine."""
    program = Program([setting(model, algorithm, seed) for seed in range(1, lanes + 1)], CPU)
    state: Params = program.algorithm.init(program.net.init(program.seeds))
    at = 0

    def round() -> None:
        nonlocal state, at
        state = program.algorithm.round(state, program.order(at), Simulation(program, at))
        at += 1

    return round


def rounds_per_second(round: Callable[[], None], seconds: float) -> float:
    """How often `round` runs a second."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        round()
        count += 1
    return count / (time.perf_counter() - began)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=1.0, help="of each timing")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--lanes", type=int, nargs="*", default=[1, 8, 64])
    given = options.parse_args()
    cores = torch.get_num_threads()
    print(
        f"torch {torch.__version__}; Baton on 1 thread, as it trains; the plain loop on its better of 1 and {cores}\n"
    )
    print("| model | algorithm | lanes | plain loop, rounds/s | Baton, lane-rounds/s | ratio (min to max) |")
    print("|---|---|---|---|---|---|")
    for model in ("logistic", "mlp"):
        for algorithm in ("sequential", "parallel"):
            bare = plain(model, algorithm)
            for lanes in given.lanes:
                ours = batched(model, algorithm, lanes)
                ours()
                ratios, theirs, mine = [], [], []
                for _ in range(given.repeats):
                    best = 0.0
                    for threads in {1, cores}:
                        torch.set_num_threads(threads)
                        best = max(best, rounds_per_second(bare, given.seconds / 2))
                    torch.set_num_threads(1)
                    theirs.append(best)
                    mine.append(lanes * rounds_per_second(ours, given.seconds))
                    ratios.append(mine[-1] / best)
                spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
                rates = f"{statistics.median(theirs):.0f} | {statistics.median(mine):.0f}"
                print(f"| {model} | {algorithm} | {lanes} | {rates} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
