"""Ctrl-C in the middle of a destructor, where Python can raise nothing."""

import subprocess
import sys

import pytest

from processes import start

DESTROYED = """
import os, signal, sys, time
from baton import cli
from baton.sweep import stopping

class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)  # interrupted here: nothing comes of it

def command():
    Late()
    print("goes on", flush=True)
    if sys.argv[1] == "handlers":
        with stopping.heard():
            time.sleep(30)
    time.sleep(30)

cli.app = command
cli.main()
"""


@pytest.mark.parametrize("then", ["nothing", "handlers"])
def test_it_is_heard_all_the_same(then: str) -> None:
    """By Python, and by handlers of ours that are put up before it is asked again; without a line of Python's own."""
    words = [sys.executable, "-c", DESTROYED, then]
    with start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        told = asked.communicate(timeout=25)
    assert (asked.returncode, *told) == (130, "goes on\n", "")


def test_what_else_is_ignored_is_still_told() -> None:
    """And the hook is put back."""
    broken = DESTROYED.replace("os.kill(os.getpid(), signal.SIGINT)", "raise ValueError('mine')")
    broken = broken.replace("time.sleep(30)", "pass")
    done = subprocess.run(
        [sys.executable, "-c", f"{broken}\nassert sys.unraisablehook is sys.__unraisablehook__", "nothing"],
        capture_output=True,
        text=True,
        timeout=25,
    )
    assert done.returncode == 0, done.stderr
    assert "Exception ignored in" in done.stderr
    assert "mine" in done.stderr
