"""Start-up: how long `baton --help` and a run of one round take, from the command to its end."""

import subprocess
import sys
import tempfile
import time
from typing import Any

from timing import found, log, table
from work import here

BATON = (sys.executable, "-m", "baton")
ONE_ROUND = ("-m", "logistic", "-S", "10", "-R", "1", "--device", "cpu", "--quiet")


def seconds(*arguments: str) -> float:
    """What one command takes."""
    began = time.perf_counter()
    subprocess.run([*BATON, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def one_round(dataset: str) -> float:
    """One round on cached data, evaluated before and after, into an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds("run", "-d", dataset, *ONE_ROUND, "--runs", folder)


def measure(repeats: int = 5) -> list[dict[str, Any]]:
    """Both in turn; the first of each, which fills caches, is not counted."""
    log("start-up")
    dataset = "mnist" if here("mnist") == "mnist" else "digits"
    taken = [(seconds("--help"), one_round(dataset)) for _ in range(repeats + 1)][1:]
    helps, runs = zip(*taken, strict=True)
    what = f"baton run -d {dataset} -m logistic -S 10 -R 1, the whole command"
    return [found("baton --help", "s", helps), found(what, "s", runs)]


if __name__ == "__main__":
    print(table(measure()))
