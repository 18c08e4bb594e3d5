"""Global random generators: whether a user's code moved one, and in which line.

A lane has to give the same numbers alone and among others. A global generator is shared by all lanes of a process, so
that what one draws depends on those beside it.
"""

import ctypes
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

LOCK = threading.Lock()  # torch has one generator for all threads
WORDS = 625  # of 32 bits in a Mersenne Twister: its key, and the place in it

_owner = 0  # the thread that lets modules draw
_forks = 0  # beginnings and ends of what Baton itself draws from torch's generator


class States(NamedTuple):
    """The global generators at one moment."""

    torch: bytes
    numpy: bytes
    python: bytes
    forks: int


@contextmanager
def forked() -> Iterator[None]:
    """Let modules draw from torch's generator, and put it back as it was; one thread at a time."""
    import torch

    global _forks, _owner
    with LOCK, torch.random.fork_rng(devices=[]):
        _forks, _owner = _forks + 1, threading.get_ident()
        try:
            yield
        finally:
            _forks += 1


def states() -> States:
    """Return what the global generators are at; microseconds, since it is asked around every call of a user's code."""
    return States(_of_torch(), _of_numpy(), _of_python(), _forks)


def moved(before: States) -> str:
    """Return whose global generator has moved since: torch, numpy or Python; empty where none has.

    What happens while Baton draws in another thread is not judged for torch; the next call is.
    """
    now = states()
    undisturbed = now.forks == before.forks and (now.forks % 2 == 0 or _owner == threading.get_ident())
    if now.torch != before.torch and undisturbed:
        return "torch"
    if now.numpy != before.numpy:
        return "numpy"
    return "Python" if now.python != before.python else ""


def _of_torch() -> bytes:
    torch = sys.modules.get("torch")
    return torch.default_generator.get_state().numpy().tobytes() if torch else b""


def _of_numpy() -> bytes:
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return b""
    generator = numpy.get_bit_generator()
    if type(generator).__name__ != "MT19937":
        return repr(generator.state).encode()
    return ctypes.string_at(generator.ctypes.state_address, 4 * WORDS)  # its .state is 100 times as slow


def _of_python() -> bytes:
    if _READABLE:
        return _words(random._inst)  # getstate() makes 625 numbers, which is slow
    return repr(random.getstate()).encode()


def _words(generator: random.Random) -> bytes:
    return ctypes.string_at(id(generator) + object.__basicsize__, 4 * WORDS)


def _readable() -> bool:
    """Return whether a generator of this Python keeps its words where _words reads them."""
    if sys.implementation.name != "cpython" or random.Random.__basicsize__ < object.__basicsize__ + 4 * WORDS:
        return False
    generator = random.Random(1)
    words = generator.getstate()[1]
    return _words(generator) in (_packed((words[-1], *words[:-1])), _packed(words))


def _packed(words: tuple[int, ...]) -> bytes:
    return b"".join(word.to_bytes(4, sys.byteorder) for word in words)


_READABLE = _readable()


class _Found(BaseException):  # not an Exception, which a user's code may catch
    """The line is known."""


def line(
    function: Callable[..., Any], given: tuple[Any, ...], options: Mapping[str, Any], others: tuple[str, ...]
) -> str:
    """Return the line that moves a generator, by calling the function once more: `make in mine.py, line 7`.

    Empty where it does not do so again. others: how the names of files begin that are not the user's.
    """
    before, last, found = states(), "", ""

    def place(frame: FrameType) -> str:
        return f"{frame.f_code.co_name} in {Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal last, found
        if frame.f_code.co_filename.startswith(others):
            return None
        if last and moved(before):
            found = last
            raise _Found
        back = frame.f_back
        goes_back = event == "return" and back is not None and not back.f_code.co_filename.startswith(others)
        last = place(back) if goes_back and back is not None else place(frame)
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(Exception, _Found):
            function(*given, **options)
    finally:
        sys.settrace(old)
    return found or (last if moved(before) else "")
