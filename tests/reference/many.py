"""Hold many random settings to the reference, and count: `python -m reference.many --settings 5000 --seed 1`.

From the folder `tests`. It prints what disagrees, then a table of how many settings of each method were compared.
"""

import argparse
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

import baton
from reference.compare import Difference, compare
from reference.run import METHODS
from reference.settings import programs

AT_ONCE = 25  # programs that are drawn with one seed


class Count:
    """What was compared of one method."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.seen: set[str] = set()  # run ids
        self.unstable = 0
        self.worst = {"float64": 0.0, "float32": 0.0}  # distance of a model, in the largest movement of a parameter
        self.differences: list[Difference] = []

    @property
    def settings(self) -> int:
        """How many were compared."""
        return len(self.seen) - self.unstable

    def hold(self, lanes: list[baton.Setting], folder: Path) -> None:
        """Compare settings that train together, but for those that were compared before."""
        fresh = list({s.run_id: s for s in lanes if s.run_id not in self.seen}.values())
        self.seen |= {s.run_id for s in fresh}
        for s, result in zip(fresh, compare(fresh, folder) if fresh else [], strict=True):
            self.unstable += not result.compared
            self.worst[s.dtype] = max(self.worst[s.dtype], result.distance)
            self.differences += result.differences


def drawn(method: str, number: int) -> list[list[baton.Setting]]:
    """Draw programs of one method; number: the seed."""
    found: list[list[baton.Setting]] = []

    @seed(number)
    @settings(
        max_examples=AT_ONCE,
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(least=3, most=6, methods=(method,)))
    def collect(lanes: list[baton.Setting]) -> None:
        found.append(lanes)

    collect()
    return found


def hold(method: str, first: int, enough: Callable[[Count], bool], folder: Path) -> Count:
    """Compare random settings of a method until there are enough."""
    count = Count(method)
    for lanes in itertools.chain.from_iterable(drawn(method, number) for number in itertools.count(first)):
        if enough(count):
            break
        count.hold(lanes, folder)
        shutil.rmtree(folder, ignore_errors=True)
    return count


def main() -> int:
    """Print the table; return 1 if anything disagrees."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--methods", default=",".join(METHODS))
    asked = parser.parse_args()
    methods, began, counts = asked.methods.split(","), time.monotonic(), []
    each = -(-asked.settings // len(METHODS))
    for method in methods:
        with tempfile.TemporaryDirectory() as folder:
            first = 1_000_000 * asked.seed + 10_000 * list(METHODS).index(method)
            counts.append(hold(method, first, lambda count: count.settings >= each, Path(folder) / "runs"))
        for difference in counts[-1].differences:
            print(difference)
        print(row(counts[-1]), flush=True)
    total, wrong = sum(count.settings for count in counts), sum(len(count.differences) for count in counts)
    unstable = sum(count.unstable for count in counts)
    print(f"{total} settings, {wrong} differences, {unstable} left out, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def row(count: Count) -> str:
    """Return a row of the table."""
    return f"| `{count.method}` | {count.settings} | {count.worst['float64']:.0e} | {count.worst['float32']:.0e} |"


if __name__ == "__main__":
    raise SystemExit(main())
