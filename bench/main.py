"""Lane-rounds a second of Baton, of a bare PyTorch loop and, where it is installed, of JAX: `make bench`.

All do the same work (work.py), timed in turn, several times over; ratios are between neighbours in time. The rows go to
bench/results.json; start-up, a million clients and the quadratics follow, and go to bench/small.json.
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import many_clients
import quadratics
import startup
from bare import bare
from ours import THREADS, ours
from timing import Side, log, rate, table
from work import Work

HERE = Path(__file__).parent
MODELS = ("logistic", "mlp", "lenet5", "cnn", "vgg9")
LONG = 5.0  # seconds: a first round that takes longer is a timing already, since what it sets up is little beside it
CORES = len(os.sched_getaffinity(0))

Rates = dict[str, list[float]]  # bare, baton, jax -> lane-rounds a second, one a repeat


def sides(work: Work, lanes: int, with_jax: bool) -> list[Side]:
    """Those timed for one row, in turn."""
    plain = bare(work)
    found = [Side("bare", 1, threads, plain) for threads in sorted({1, CORES})]
    found.append(Side("baton", lanes, THREADS, ours(work, lanes)))
    if with_jax:
        from jaxed import jaxed

        found.append(Side("jax", lanes, CORES, jaxed(work, lanes)))
    return found


def measure(timed: list[Side], work: Work, given: argparse.Namespace) -> tuple[Rates, dict[str, int]]:
    """Each repeat times all sides; the bare loop counts with its better number of threads. And what that number was."""
    rates: Rates = {}
    threads: dict[str, list[int]] = {}
    began = time.perf_counter()
    for repeat in range(given.repeats):
        if repeat >= given.least and time.perf_counter() - began > given.limit:
            break
        best: dict[str, tuple[float, int]] = {}
        for side in timed:
            found = rate(side, 0, work.device) if repeat == 0 else 0.0
            if repeat or side.lanes / found < LONG:
                found = rate(side, given.seconds, work.device)
            best[side.by] = max(best.get(side.by, (0.0, 0)), (found, side.threads))
        for by, (found, count) in best.items():
            rates.setdefault(by, []).append(found)
            threads.setdefault(by, []).append(count)
    return rates, {by: statistics.mode(counts) for by, counts in threads.items()}


def rows(work: Work, lanes: int, rates: Rates, threads: dict[str, int]) -> list[dict[str, Any]]:
    """One for each side, as results.json holds them."""
    made = []
    for by, found in rates.items():
        ratios = [mine / theirs for mine, theirs in zip(found, rates["bare"], strict=True)]
        made.append(
            {
                "model": work.model,
                "dataset": work.dataset,
                "algorithm": work.algorithm,
                "device": work.device.type,
                "by": by,
                "lanes": 1 if by == "bare" else lanes,
                "beside": lanes,  # the lanes of the row that it was timed in
                "lane_rounds_per_s": statistics.median(found),
                "ratio_to_bare": statistics.median(ratios),
                "ratio_min": min(ratios),
                "ratio_max": max(ratios),
                "repeats": len(found),
                "threads": threads[by],
            }
        )
    return made


def line(made: list[dict[str, Any]], with_jax: bool) -> str:
    """A row of the table."""
    by = {row["by"]: row for row in made}
    cells = [made[0]["model"], made[0]["algorithm"], str(made[0]["beside"])]
    cells.append(f"{by['bare']['lane_rounds_per_s']:.3g} ({by['bare']['threads']})")
    for name in ("baton", "jax")[: 1 + with_jax]:
        row = by[name]
        cells.append(f"{row['lane_rounds_per_s']:.3g}")
        cells.append(f"{row['ratio_to_bare']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})")
    return f"| {' | '.join(cells)} |"


def arguments() -> argparse.Namespace:
    """What was asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    options.add_argument("--algorithms", nargs="*", default=["sequential", "parallel"])
    options.add_argument("--lanes", type=int, nargs="*", default=[1, 24])
    options.add_argument("--seconds", type=float, default=0.5, help="of each timing, and at least one round")
    options.add_argument("--repeats", type=int, default=5, help="of a row")
    options.add_argument("--least", type=int, default=2, help="repeats also of a row that takes longer than --limit")
    options.add_argument("--limit", type=float, default=15.0, help="seconds after which a row gets no more repeats")
    options.add_argument("--clip", type=float, default=0.0)
    options.add_argument("--weight-decay", type=float, default=0.0)
    options.add_argument("--device", default="cpu")
    options.add_argument("--no-jax", action="store_true")
    options.add_argument("--no-small", action="store_true", help="leave out start-up, many clients and quadratics")
    options.add_argument("--data", help="folder of the data sets (BATON_DATA)")
    options.add_argument("--out", type=Path, default=HERE / "results.json")
    return options.parse_args()


def main() -> None:
    """Print the tables."""
    given, began = arguments(), time.perf_counter()
    if given.data:
        os.environ["BATON_DATA"] = given.data
    with_jax = not given.no_jax and jax_version() is not None
    versions = f"torch {torch.__version__}" + (f", jax {jax_version()}" if with_jax else "")
    print(f"{platform.machine()}, {CORES} cores, {versions}; rounds/s of lanes together, ratios to the bare loop\n")
    head = ["model", "algorithm", "lanes", "bare loop (threads)", "Baton", "ratio (min to max)"]
    head += ["JAX", "ratio (min to max)"] * with_jax
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    done: list[dict[str, Any]] = []
    for model, algorithm, lanes in itertools.product(given.models, given.algorithms, given.lanes):
        log(f"{model}, {algorithm}, {lanes} lanes")
        work = Work(model, algorithm, given.clip, given.weight_decay, torch.device(given.device))
        made = rows(work, lanes, *measure(sides(work, lanes, with_jax), work, given))
        print(line(made, with_jax), flush=True)
        done += made
        given.out.write_text(json.dumps(done, indent=1) + "\n")
    if not given.no_small:
        small = [*startup.measure(), *many_clients.measure(), *quadratics.measure()]
        given.out.with_name("small.json").write_text(json.dumps(small, indent=1) + "\n")
        print(f"\n{table(small)}")
    log(f"{time.perf_counter() - began:.0f} s in all")


def jax_version() -> str | None:
    """None where it is not installed."""
    try:
        import jax  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return str(jax.__version__)


if __name__ == "__main__":
    main()
