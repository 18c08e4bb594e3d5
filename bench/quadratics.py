"""The paper's study on quadratic functions, 1,800 runs of 500 rounds: `baton sweep quadratics` into an empty store."""

import tempfile
from typing import Any

from startup import seconds
from timing import found, log, table


def measure(repeats: int = 3) -> list[dict[str, Any]]:
    """The command, from start to end."""
    taken = []
    for _ in range(repeats):
        log("quadratics")
        with tempfile.TemporaryDirectory() as folder:
            taken.append(seconds("sweep", "quadratics", "--runs", folder, "--device", "cpu", "--quiet"))
    return [found("baton sweep quadratics, 1,800 runs of 500 rounds", "s", taken)]


if __name__ == "__main__":
    print(table(measure()))
