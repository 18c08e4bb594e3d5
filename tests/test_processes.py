"""What tests start is stopped by signals wherever the tests themselves were started, and never outlives them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import processes

SHELL = "echo $$; sleep 1000 & echo $!; wait"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", processes.SIGNALS)
def test_signals_reach_it_also_where_they_are_ignored_here(how: signal.Signals) -> None:
    before = signal.signal(how, signal.SIG_IGN)
    try:
        with processes.start(["sleep", "1000"]) as process:
            deadline = time.monotonic() + 30
            while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()[:6]:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(how)
            assert process.wait(30) == -how
    finally:
        signal.signal(how, before)


def test_python_in_it_is_interrupted() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = "import time\ntry:\n    print(flush=True)\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    print(1)"
    try:
        with processes.start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=30)[0] == "1\n"
    finally:
        signal.signal(signal.SIGINT, before)


def test_all_of_it_ends_with_the_test() -> None:
    pids: list[int] = []

    def fails() -> None:
        with processes.start(["sh", "-c", SHELL], stdout=subprocess.PIPE, text=True) as process:
            pids.extend(int(process.stdout.readline()) for _ in range(2))
            assert all(map(alive, pids))
            assert os.getpgid(pids[1]) == process.pid != os.getpgid(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    deadline = time.monotonic() + 30
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(alive, pids))
