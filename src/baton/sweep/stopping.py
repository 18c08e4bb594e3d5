"""Being asked to stop: SIGINT, SIGTERM and SIGHUP.

The first signal lets the round end and saves. A second one ends the round at once, and waits while a save is under way.
A third ends the process at once, and says so.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """Somebody asked for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number  # as a shell tells it


class _Asked:
    """What has been asked for so far, and what must not be broken off. One a process: so are signals."""

    def __init__(self) -> None:
        self.times, self.number, self.broke = 0, 0, False
        self.patient, self.saving = 0, 0
        self.lock = threading.Lock()

    def heard(self, number: int, frame: FrameType | None) -> None:
        """A signal, in the main thread."""
        del frame
        self.times += 1
        self.number = self.number or number
        if self.times >= 3:
            _say("ended at once; what was trained since the last checkpoint is lost, the same command goes on from it")
            os._exit(128 + number)
        if self.saving:
            _say("saving; a third signal would end this at once")
        elif self.times == 1 and self.patient:
            _say("stopping after this round, then saving; again: at once")
        else:
            self.broke = True
            raise Stopped(self.number)


_asked = _Asked()


def _say(line: str) -> None:
    """Straight to the file: whoever writes to it may have been interrupted."""
    with suppress(OSError, ValueError, AttributeError):
        os.write(sys.stderr.fileno(), f"baton: {line}\n".encode())


@contextmanager
def heard(ending: bool = False) -> Iterator[None]:
    """Signals mean what this module says, in the main thread; one that is ignored stays so (nohup, a script's &).

    ending: once stopped, nothing follows but the end of the process, and no signal is heard any more.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _asked.times, _asked.number, _asked.broke = 0, 0, False
    before = {number: signal.getsignal(number) for number in SIGNALS}
    unraisable = sys.unraisablehook
    sys.unraisablehook = lambda what: None if isinstance(what.exc_value, Stopped) else unraisable(what)
    for number, old in before.items():
        if old is not signal.SIG_IGN:
            signal.signal(number, _asked.heard)
    try:
        yield
    finally:
        sys.unraisablehook = unraisable  # what was broken off where nothing can be is asked for again by `check`
        for number, old in before.items():
            stays = signal.SIG_DFL if old is None else old
            signal.signal(number, signal.SIG_IGN if ending and _asked.times else stays)
        _asked.times, _asked.number, _asked.broke = 0, 0, False


@contextmanager
def patient() -> Iterator[None]:
    """Inside, `check` is called now and then: a first signal need not break anything off."""
    with _counted("patient"):
        yield


@contextmanager
def saving() -> Iterator[None]:
    """Inside, nothing but a third signal breaks anything off."""
    with _counted("saving"):
        yield


@contextmanager
def _counted(what: str) -> Iterator[None]:
    with _asked.lock:
        setattr(_asked, what, getattr(_asked, what) + 1)
    try:
        yield
    finally:
        with _asked.lock:
            setattr(_asked, what, getattr(_asked, what) - 1)


def asked() -> int:
    """How many times somebody has asked so far."""
    return _asked.times


def broken() -> bool:
    """Whether something was broken off: whatever is raised then may be of that, an import that failed for one."""
    return _asked.broke


def check() -> None:
    """Stop here if somebody asked for it."""
    if _asked.times:
        raise Stopped(_asked.number)
