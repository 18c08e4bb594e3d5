"""How long a table takes to load and split, and how much memory: pyarrow and without it, first and second start.

    python bench/tables.py [ROWS] [COLUMNS]

Each start is a process of its own; memory is its largest resident set, with Python, NumPy and torch in it.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WAYS = {"pyarrow": True, "NumPy": False}


def write(path: Path, rows: int, columns: int) -> None:
    """Numbers of ten characters, a site column of ten hospitals, a label of two classes."""
    draw = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write(",".join(["site", *(f"x{j}" for j in range(columns - 2)), "sick"]) + "\n")
        for _ in range(0, rows, 10_000):
            block = draw.normal(size=(10_000, columns - 2))
            sick = (block[:, 0] > 0).astype(int)
            site = draw.integers(0, 10, 10_000)
            for where, row, label in zip(site.tolist(), block.tolist(), sick.tolist(), strict=True):
                file.write(f"hospital{where}," + ",".join(f"{value:.6f}" for value in row) + f",{label}\n")


def once(path: str, fast: bool) -> None:
    """One start, in this process."""
    from baton.datasets.table import arrow, load

    if not fast:
        arrow.here = lambda: False
    began = time.perf_counter()
    data = load.load(0, path=path, label="sick", site="site")
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{took:7.1f} s  {peak:8,.0f} MiB  {len(data.y):,} + {len(data.test_y):,} rows  {data.content}")


def main(rows: int, columns: int) -> None:
    """All starts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write(path, rows, columns)
        print(f"{rows:,} rows x {columns} columns, {path.stat().st_size / 1e6:,.0f} MB of CSV")
        for way, fast in WAYS.items():
            place = {**os.environ, "XDG_CACHE_HOME": str(Path(folder) / way)}
            for start in ("first", "second"):
                command = [sys.executable, __file__, "--once", str(path), str(int(fast))]
                said = subprocess.run(command, env=place, check=True, capture_output=True, text=True).stdout
                print(f"{way:8} {start:7} {said}", end="", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        once(sys.argv[2], sys.argv[3] == "1")
    else:
        main(*map(int, sys.argv[1:] or ("1000000", "50")))
