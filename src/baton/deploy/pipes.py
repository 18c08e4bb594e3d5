"""Frames through pipes: their length, then they."""

import struct
from typing import BinaryIO

_LENGTH = struct.Struct("<Q")


def write(pipe: BinaryIO, frame: bytes) -> None:
    """One frame."""
    pipe.write(_LENGTH.pack(len(frame)))
    pipe.write(frame)
    pipe.flush()


def read(pipe: BinaryIO) -> bytes | None:
    """The next frame; None where there is none any more."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    size = _LENGTH.unpack(head)[0]
    frame = pipe.read(size)
    return frame if len(frame) == size else None
