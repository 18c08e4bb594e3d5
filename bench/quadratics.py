"""The paper's study on quadratic functions, 1,800 runs of 500 rounds: `baton sweep quadratics` into an empty store."""

import tempfile
from typing import Any

from startup import seconds
from timing import found, log, table


def measure(repeats: int = 3) -> list[dict[str, Any]]:
    """The command, from start to end."""
    taken = []
    with tempfile.TemporaryDirectory() as folder:  # removed at the end: ext4 is slow where thousands of files just were
        for repeat in range(repeats):
            log("quadratics")
            runs = f"{folder}/{repeat}"
            taken.append(seconds("sweep", "quadratics", "--runs", runs, "--device", "cpu", "--quiet"))
    return [found("baton sweep quadratics, 1,800 runs of 500 rounds", "s", taken)]


if __name__ == "__main__":
    print(table(measure()))
