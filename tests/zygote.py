"""A process that has loaded Baton and hands out copies of itself: many commands, each started in milliseconds.

Run as a script it reads lines of JSON: {"words": [...], "cwd": "...", "errors": "..."} starts `baton WORDS` in a copy
and answers its pid; {"wait": pid, "seconds": s} answers its exit code, null while it runs on.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import processes


class Zygote:
    """The same, as a test sees it; it ends with all that it started."""

    def __init__(self) -> None:
        self._started = processes.start(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "2"},  # two cores, so that small chunks train side by side
        )
        self.process = self._started.__enter__()
        self.pids: set[int] = set()
        self.codes: dict[int, int] = {}  # of those that ended

    def _ask(self, **words: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, words: list[str], cwd: Path, errors: Path) -> int:
        """The pid of a command."""
        pid: int = self._ask(words=words, cwd=str(cwd), errors=str(errors))
        self.pids.add(pid)
        self.codes.pop(pid, None)
        return pid

    def wait(self, pid: int, seconds: float) -> int | None:
        """Its exit code, minus the signal that ended it; None: it runs on."""
        if pid in self.codes:
            return self.codes[pid]
        code: int | None = self._ask(wait=pid, seconds=seconds)
        if code is not None:
            self.codes[pid] = code
            self.pids.discard(pid)
        return code

    def end(self) -> None:
        """Nothing is left running."""
        for pid in self.pids:
            processes.end(pid)
        self._started.__exit__(None, None, None)


def _copy(words: list[str], cwd: str, errors: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        os.chdir(cwd)
        for number in processes.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        place = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(place, 2)
        sys.argv = ["baton", *words]
        main()
    except SystemExit as stop:
        sys.stderr.flush()
        os._exit(stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(99)
    os._exit(0)


def _wait(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.005)


if __name__ == "__main__":
    from baton.cli import main
    from baton.sweep import progress, sweep  # noqa: F401 all that training loads

    for line in sys.stdin:
        asked = json.loads(line)
        answer = _wait(asked["wait"], asked["seconds"]) if "wait" in asked else _copy(**asked)
        print(json.dumps(answer), flush=True)
