"""Who keeps a site's training process: one leg at a time, each with an end to its time. Needs no torch."""

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

from baton.deploy.frames import Garbled, refusal, seconds
from baton.deploy.pipes import read, widen, write
from baton.deploy.place import Place

SHARE = 0.95  # of the time that the server waits: the answer has to get there too


class Trainer:
    """A child process, made when it is wanted and made again when it has died."""

    def __init__(self, place: Path) -> None:
        """place: the site's small file."""
        self.place, self.log = place, Path(Place.read(place).log)
        self._child: subprocess.Popen[bytes] | None = None
        self._turn, self._newest = threading.Lock(), 0
        self._count = threading.Lock()

    def ask(self, frame: bytes) -> bytes:
        """The child's answer. Whoever comes while a leg is under way ends it: its server has given it up."""
        try:
            time_left = seconds(frame) * SHARE
        except Garbled:
            return refusal("message")
        end = time.monotonic() + time_left
        with self._count:
            self._newest += 1
            mine = self._newest
        if not self._turn.acquire(blocking=False):
            self.end()
            self._turn.acquire()
        try:
            return self._answer(frame, end) if mine == self._newest else refusal("time")
        finally:
            self._turn.release()

    def _answer(self, frame: bytes, end: float) -> bytes:
        child = self._alive()
        found: list[bytes | None] = []

        def talk() -> None:
            with suppress(OSError, ValueError):
                write(cast("BinaryIO", child.stdin), frame)
                found.append(read(cast("BinaryIO", child.stdout)))

        speaker = threading.Thread(target=talk, daemon=True)
        speaker.start()
        speaker.join(max(0.0, end - time.monotonic()))
        if speaker.is_alive():
            self.end()
            speaker.join()
            return refusal("time")
        if not found or found[0] is None:
            self.end()
            return refusal("memory" if child.returncode == -9 else "crash")
        return found[0]

    def _alive(self) -> "subprocess.Popen[bytes]":
        if self._child is None or self._child.poll() is not None:
            self.end()
            with open(self.log, "ab") as log:
                words = [sys.executable, "-m", "baton.deploy.child", str(self.place)]
                pipe = subprocess.PIPE
                self._child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True)
            for end in (self._child.stdin, self._child.stdout):
                widen(cast("BinaryIO", end))
            if read(cast("BinaryIO", self._child.stdout)) != b"ready":
                self.end()
        return self._child

    def end(self) -> None:
        """The child, now."""
        child = self._child
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                with suppress(OSError, ValueError):
                    cast("BinaryIO", pipe).close()
