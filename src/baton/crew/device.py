"""The process of one device: it takes chunks from the pool until none is left that nobody is at.

Run as a module it reads one line of JSON from its standard input and writes lines of JSON: how far a chunk is, what a
person should know, what went wrong. When its input ends, whoever started it is gone, and it saves and stops.
"""

import _thread
import contextlib
import io
import json
import os
import signal
import sys
import threading
import time
from typing import NamedTuple

from baton.errors import BadInput
from baton.limits import enough
from baton.usercode import blamed

TELL_SECONDS = 0.2  # between two words about one chunk


class Orders(NamedTuple):
    """What it is told."""

    settings: list[str]  # as JSON, in their stored form
    root: str
    device: str
    checkpoint: float
    precision: str
    anyway: bool
    shard: tuple[int, int]


class _Lines(io.TextIOBase):
    """What is written to standard error, passed on line by line."""

    def write(self, text: str) -> int:
        """A line, or a part of one."""
        for line in text.splitlines():
            if line.strip():
                say("said", line)
        return len(text)


def say(*word: str | int) -> None:
    """One line, for whoever started this; nothing, where nobody listens any more."""
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(word), flush=True)


def work(orders: Orders) -> None:
    """Chunks of these runs, as long as there are any."""
    import torch

    from baton.setting import Setting
    from baton.store import Store
    from baton.sweep import Shard, stopping, sweep

    settings, last = [Setting.from_json(text) for text in orders.settings], dict[str, float]()
    at = sweep(
        *(settings, Store(orders.root), torch.device(orders.device), None, orders.checkpoint, orders.precision),
        *(orders.anyway,),
        shard=Shard(*orders.shard),
    )
    with stopping.heard(ending=True), contextlib.closing(at):
        try:
            for where in at:
                if where.name and time.monotonic() - last.get(where.name, 0.0) > TELL_SECONDS:
                    last[where.name] = time.monotonic()
                    say("at", where.name, where.round)
        finally:
            with stopping.saving():
                at.close()


def main() -> None:
    """From the orders to the end."""
    text = sys.stdin.readline()
    if not text:
        return
    threading.Thread(target=_watch, daemon=True).start()
    with contextlib.redirect_stderr(_Lines()):
        try:
            with blamed(), enough("memory: too little is free"):
                work(Orders(*json.loads(text)))
        except BadInput as error:
            say("bad", str(error))
        except OSError as error:
            say("bad", f"{error.filename or 'runs'}: {error.strerror or error}")
        except KeyboardInterrupt:
            pass
    os._exit(0)  # nothing is left to do, and the thread waits for ever


def _watch() -> None:
    """Until the input ends."""
    sys.stdin.read()
    _thread.interrupt_main(signal.SIGTERM)


if __name__ == "__main__":
    main()
