"""What crosses a wire, seen from outside: a head in JSON, then the numbers. Needs neither torch nor a look at them.

No frame is ever unpickled or run: it names one of a few known messages, and holds arrays of known types.
"""

import json
import struct
from collections.abc import Sequence
from typing import Any

MAGIC = b"BTN1"
HEAD_BYTES = 4 << 20  # the most that a head may have
ALIGNED = 64  # where a body begins, in bytes: its numbers can be used where they lie
_LENGTH = struct.Struct("<4sI")


class Garbled(ValueError):
    """What came is no message of ours."""


def joined(head: dict[str, Any], body: Sequence[bytes | memoryview]) -> bytes:
    """One frame: all that is copied is copied here, once."""
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % ALIGNED)
    return b"".join([_LENGTH.pack(MAGIC, len(text)), text, *body])


def parted(frame: object) -> tuple[dict[str, Any], memoryview]:
    """(its head, its body)."""
    if not isinstance(frame, bytes | bytearray | memoryview) or len(frame) < _LENGTH.size:
        raise Garbled("no frame")
    view = memoryview(frame)
    magic, size = _LENGTH.unpack_from(view)
    if magic != MAGIC or size > min(HEAD_BYTES, len(view) - _LENGTH.size):
        raise Garbled("no frame of this version")
    end = _LENGTH.size + size
    try:
        head = json.loads(bytes(view[_LENGTH.size : end]))
    except (ValueError, RecursionError):
        raise Garbled("a head that cannot be read") from None
    if not isinstance(head, dict):
        raise Garbled("a head that is no table")
    return head, view[end:]


def seconds(frame: bytes | bytearray) -> float:
    """How long the sender waits for an answer."""
    found = parted(frame)[0].get("seconds")
    if not isinstance(found, int | float) or not 0 < found < 1e9:
        raise Garbled("no time to answer in")
    return float(found)


def refusal(why: str) -> bytes:
    """The answer of a site that does not do what it is asked: one of a few words, and nothing else."""
    return joined({"refused": why}, [])
