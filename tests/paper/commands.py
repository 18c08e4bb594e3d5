"""Run every command of docs/paper.md's table at the scale written there, and print a line an item: `make paper`."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "paper.md"
STATUSES = ("works", "partly", "missing", "differs")
LONGEST = 300  # seconds for one command


class Item(NamedTuple):
    """One row of the table."""

    number: int
    place: str
    name: str
    command: str  # "" where there is none
    status: str
    agreement: str


class Outcome(NamedTuple):
    """What became of a command."""

    code: int
    seconds: float
    said: str  # the last line on stderr


def items() -> list[Item]:
    """Return the rows of docs/paper.md's table."""
    rows = [
        re.split(r"\s*\|\s*", line)[1:-1] for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| \d", line)
    ]
    return [Item(int(number), place, name, command.strip("`"), *rest) for number, place, name, command, *rest in rows]


def run(command: str, folder: Path) -> Outcome:
    """Run a command as a reader would type it, in a folder of its own."""
    program, *words = shlex.split(command)
    line = [sys.executable, *words] if program == "python" else [sys.executable, "-m", "baton", *words]
    begun = time.monotonic()
    done = subprocess.run(line, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=LONGEST)
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return Outcome(done.returncode, time.monotonic() - begun, said[-1] if said else "")


def main() -> int:
    """Print 103 lines and the counts; return 1 if a command of an item that works does not."""
    found, broken, counts = dict[str, Outcome](), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for item in items():
            if item.command and item.command not in found:
                found[item.command] = run(item.command, Path(folder))
            outcome = found.get(item.command)
            said = "no command" if outcome is None else f"{outcome.seconds:.1f} s"
            if outcome is not None and outcome.code:
                without_data = "is not here" in outcome.said or "baton data get" in outcome.said
                said = "its data are not on this machine" if without_data else f"FAILED: {outcome.said}"
                broken += not without_data
            counts[item.status] += 1
            print(f"{item.number:3} {item.status:<8} {item.name[:60]:<60} {said}", flush=True)
    print(", ".join(f"{counts[status]} {status}" for status in STATUSES))
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
