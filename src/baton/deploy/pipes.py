"""Frames through pipes: their length, then they."""

import fcntl
import struct
from contextlib import suppress
from io import BufferedReader
from typing import BinaryIO

WIDE = 1 << 20  # bytes that a pipe holds where the system lets it; with its usual 64 KB, 40 MB take many more turns
_LENGTH = struct.Struct("<Q")


def widen(pipe: BinaryIO) -> None:
    """For large frames."""
    with suppress(AttributeError, OSError):  # Linux has it, and may refuse it
        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, WIDE)


def write(pipe: BinaryIO, frame: bytes) -> None:
    """One frame."""
    pipe.write(_LENGTH.pack(len(frame)))
    pipe.write(frame)
    pipe.flush()


def read(pipe: BinaryIO) -> bytes | None:
    """The next frame, for somebody who hands it on; None where there is none any more."""
    size = _announced(pipe)
    frame = b"" if size is None else pipe.read(size)
    return frame if len(frame) == size else None


def taken(pipe: BufferedReader) -> bytearray | None:
    """The next frame, for somebody who works on it: its numbers may be written to where they lie."""
    size = _announced(pipe)
    if size is None:
        return None
    frame = bytearray(size)
    return frame if pipe.readinto(frame) == size else None


def _announced(pipe: BinaryIO) -> int | None:
    head = pipe.read(_LENGTH.size)
    return int(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else None
