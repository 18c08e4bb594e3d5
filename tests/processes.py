"""Processes that tests start: signals as a shell hands them on, a group of their own, an end whatever happens."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # ignored by those who are started so: `nohup`, `make test &`
BEGIN = f"""import os, signal, sys
for number in {[int(number) for number in SIGNALS]}:
    signal.signal(number, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
os.execvp(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def start(words: Sequence[str | Path], cwd: Path | None = None, **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """The process, as Popen makes it; at the end it and all that it started are killed, where they are still there."""
    command = [sys.executable, "-I", "-S", "-c", BEGIN, *map(str, words)]
    with subprocess.Popen(command, cwd=cwd, process_group=0, **options) as process:
        try:
            yield process
        finally:
            end(process.pid)


def end(group: int) -> None:
    """Kill all processes of a group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def begin() -> None:
    """The same for a process that multiprocessing started, called in it: its signals, and a group of its own."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
