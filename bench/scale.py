"""How a grid grows with its hands: one process against two, and against 1 and 2 Ray workers, one thread each.

python bench/scale.py [REPETITIONS] [ROUNDS] [FILE]: side by side, so many times; rows are added to FILE where one is
named, and the summary is over all that it holds. "Apart" are two commands that know nothing of each other, each with
half of the grid: what the machine itself allows. Training is from the first chunk's begin to the last one's end, the
whole is the command's.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

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
seed = {seeds}
"""
CHUNKS = 8
KINDS = {"one process": 1, "apart": 2, "cpu,cpu": 2, "1 Ray worker": 1, "2 Ray workers": 2}  # hands of each


class Row(NamedTuple):
    """One way of training the grid once; seconds."""

    kind: str
    whole: float
    first: float  # from the command to the first chunk's begin
    training: float  # from there to the last chunk's end
    after: float  # from there to the command's end
    work: float  # the chunks' own, added up


def run(kind: str, studies: list[Path], folder: Path) -> Row:
    """The grid, or its parts by a command each."""
    hands, more = KINDS[kind], []
    if "Ray" in kind:
        more = ["--on", "ray:local"]
    elif kind == "cpu,cpu":
        more = ["--device", kind]
    threads = {"OMP_NUM_THREADS": "1" if kind in ("one process", "apart") else str(hands)}  # CPUs that Baton sees
    began, running, stores = time.time(), list[subprocess.Popen[bytes]](), list[Path]()
    for number, study in enumerate(studies):
        stores.append(folder / f"{number}")
        words = [sys.executable, "-m", "baton", "sweep", str(study), "--runs", str(stores[-1]), "--cores", "1"]
        words += ["--parts", str(CHUNKS // len(studies)), "--quiet", *more]
        running.append(subprocess.Popen(words, env=os.environ | threads))
    if any(process.wait() for process in running):
        raise SystemExit(f"{kind}: a command failed")
    whole = time.time() - began
    chunks = [chunk for store in stores for chunk in trained(store)]
    assert len(chunks) == CHUNKS
    first, last = min(end - took for end, took in chunks), max(end for end, _ in chunks)
    return Row(kind, whole, first - began, last - first, began + whole - last, sum(took for _, took in chunks))


def trained(store: Path) -> list[tuple[float, float]]:
    """When each chunk ended, as its runs' folders say, and the seconds that it took."""
    entries = [json.loads(line) for line in (store / "journal.jsonl").read_text().splitlines()]
    return [(max((store / run).stat().st_ctime for run in each["runs"]), each["seconds"]) for each in entries]


def told(rows: list[Row]) -> None:
    """Ratios to the one process of the same repetition; medians, and the range."""
    kinds = {kind: [row for row in rows if row.kind == kind] for kind in KINDS}

    def shown(values: list[float], digits: int = 2) -> str:
        low, high = min(values), max(values)
        return f"{statistics.median(values):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

    base = kinds["one process"]
    print(
        "| | training, against one process | of the work | whole command | to the first chunk, s | after the last, s |",
        end="",
    )
    print(" a chunk beside training, s |\n|---|---|---|---|---|---|---|")
    for kind, own in kinds.items():
        faster = shown([one.training / row.training for one, row in zip(base, own, strict=True)])
        heavier = shown([row.work / one.work for one, row in zip(base, own, strict=True)])
        whole = shown([one.whole / row.whole for one, row in zip(base, own, strict=True)])
        beside = shown([(KINDS[kind] * row.training - row.work) / CHUNKS for row in own])
        first, after = shown([row.first for row in own], 1), shown([row.after for row in own], 1)
        print(f"| {kind} | {faster} | {heavier} | {whole} | {first} | {after} | {beside} |")


def main() -> None:
    """Side by side, so many times."""
    times, rounds = int((sys.argv[1:] or ["3"])[0]), int((sys.argv[2:] or ["100"])[0])
    kept = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    rows = [Row(*json.loads(line)) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for which, seeds in {"all": "[1, 2, 3, 4]", "a": "[1, 2]", "b": "[3, 4]"}.items():
            (folder / f"{which}.toml").write_text(STUDY.format(rounds=rounds, seeds=seeds))
        for number in range(times):
            for kind in KINDS:
                parts = ["a", "b"] if kind == "apart" else ["all"]
                row = run(kind, [folder / f"{part}.toml" for part in parts], folder / f"{number}-{kind}")
                print(kind, *(f"{x:.1f}" for x in row[1:]), flush=True)
                rows.append(row)
                if kept:
                    with kept.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    told(rows)


if __name__ == "__main__":
    main()
