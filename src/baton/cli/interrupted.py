"""Ctrl-C where nothing can be raised, in the middle of a destructor, is not lost: it is asked for again."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LATER = 0.01  # seconds


@contextmanager
def asked_again() -> Iterator[None]:
    """Python says «Exception ignored in ...» there, and goes on as if nobody had asked."""
    before = sys.unraisablehook

    def ignored(what: "sys.UnraisableHookArgs") -> None:
        if type(what.exc_value) is not KeyboardInterrupt:
            before(what)
            return
        signal.signal(signal.SIGALRM, _once_more)
        signal.setitimer(signal.ITIMER_REAL, LATER)

    sys.unraisablehook = ignored
    try:
        yield
    finally:
        sys.unraisablehook = before


def _once_more(number: int, frame: FrameType | None) -> None:
    """To whoever listens by then."""
    del number, frame
    signal.raise_signal(signal.SIGINT)
