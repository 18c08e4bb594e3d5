"""How a grid grows with its workers: one process against 1 and 2 Ray workers, one thread each, side by side.

python bench/scale.py [REPETITIONS] [ROUNDS]: the whole command, its time to the first word of a round (Ray's may be
0.7 s late), and what a chunk costs beside its training. On a busy machine the ratios of neighbours are what counts.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = """
[base]
dataset = "mnist"
model = "lenet5"
rounds = {rounds}
eval_every = {rounds}
clients = 100
participants = 10
local_steps = 5
batch_size = 20
[axes]
algorithm = ["sequential"]
lr = [0.01, 0.02, 0.05, 0.1]
seed = [1, 2, 3, 4]
"""


def run(study: Path, store: Path, *more: str) -> tuple[float, float]:
    """Seconds of a whole command; and until its first progress line."""
    words = [sys.executable, "-m", "baton", "sweep", str(study), "--runs", str(store), "--cores", "1", *more]
    began, first = time.monotonic(), 0.0
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            if not first and re.match(r"\d+ lane", line):
                first = time.monotonic() - began
    assert process.returncode == 0
    return time.monotonic() - began, first


def trained(store: Path) -> float:
    """Seconds of training, all chunks together."""
    lines = (store / "journal.jsonl").read_text().splitlines()
    return float(sum(json.loads(line)["seconds"] for line in lines))


def main() -> None:
    """Side by side, so many times."""
    times, rounds = int((sys.argv[1:] or ["3"])[0]), int((sys.argv[2:] or ["40"])[0])
    found: dict[str, list[tuple[float, float, float]]] = {"one process": [], "1 worker": [], "2 workers": []}
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.toml"
        study.write_text(STUDY.format(rounds=rounds))
        for number in range(times):
            for name in found:
                store = Path(folder) / f"{number}-{name[:1]}{len(name)}"
                workers = 0 if name == "one process" else int(name[0])
                os.environ["OMP_NUM_THREADS"] = str(max(1, workers))  # which is how many CPUs a started cluster has
                more = ["--on", "ray:local"] if workers else []
                whole, first = run(study, store, "--parts", "8", *more)
                found[name].append((whole, first, trained(store)))
                print(name, *(f"{x:.1f}" for x in found[name][-1]), flush=True)
    base = [whole - first for whole, first, _ in found["one process"]]
    for name, rows in found.items():
        gains = [b / (whole - first) for b, (whole, first, _) in zip(base, rows, strict=True)]
        spread = f"{min(gains):.2f} to {max(gains):.2f}"
        first = statistics.median(row[1] for row in rows)
        hands = int(name[0]) if name[0].isdigit() else 1
        beside = statistics.median((hands * (whole - first) - work) / 8 for whole, first, work in rows)
        print(
            f"{name}: {statistics.median(gains):.2f} times one process ({spread}); first round after {first:.1f} s; "
            f"{beside:.2f} s a chunk beside training"
        )


if __name__ == "__main__":
    main()
