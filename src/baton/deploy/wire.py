"""Messages as bytes, and back: every field is held to its type before anybody sees it."""

from collections.abc import Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor

from baton.deploy import messages
from baton.deploy.frames import Garbled, joined, parted
from baton.deploy.messages import PARTS, Message, Refused

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (*get_args(Message), *PARTS)}
DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "int64", "uint8")}
DEEPEST = 8  # how far messages are nested


def packed(message: Message, seconds: float = 0.0) -> bytes:
    """A message as a frame; seconds: how long its sender waits for the answer."""
    arrays: list[Tensor] = []
    said = _plain(message, arrays)
    shapes = [[str(x.dtype).removeprefix("torch."), list(x.shape)] for x in arrays]
    body = [x.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data for x in arrays if x.numel()]
    return joined({"seconds": seconds, "says": said, "arrays": shapes}, body)


def unpacked(frame: object) -> Message:
    """The message in a frame; Garbled where there is none."""
    head, body = parted(frame)
    if "refused" in head:
        why = head["refused"]
        return Refused(why if isinstance(why, str) and why in messages.WHYS else "failed")
    try:
        found = _made(head["says"], _arrays(head["arrays"], body), 0)
    except Garbled:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise Garbled("a message that cannot be read") from None
    if not isinstance(found, get_args(Message)):
        raise Garbled("a part of a message alone")
    message: Message = found
    return message


def _plain(x: Any, arrays: list[Tensor]) -> Any:
    if isinstance(x, Tensor):
        arrays.append(x)
        return {"at": len(arrays) - 1}
    if isinstance(x, dict):
        return {"of": {name: _plain(leaf, arrays) for name, leaf in x.items()}}
    if isinstance(x, tuple):
        return {"is": type(x).__name__, "has": [_plain(field, arrays) for field in x]}
    return x


def _arrays(shapes: Sequence[Any], body: memoryview) -> list[Tensor]:
    """They fill the body, to its last byte."""
    found, at = [], 0
    for name, shape in shapes:
        if name not in DTYPES or not all(type(n) is int and 0 <= n < 1 << 48 for n in shape) or len(shape) > 8:
            raise Garbled("an array of another kind")
        kind = DTYPES[name]
        size = int(np.prod(shape, dtype=object)) * kind.itemsize
        if size > len(body) - at:
            raise Garbled("an array that was cut short")
        data = body[at : at + size]
        if data.readonly or at % kind.itemsize:
            data = memoryview(bytearray(data))  # our own, and may be written to
        found.append(torch.frombuffer(data, dtype=kind).view(shape) if size else torch.empty(shape, dtype=kind))
        at += size
    if at != len(body):
        raise Garbled("more than was announced")
    return found


def _made(said: Any, arrays: list[Tensor], depth: int) -> Any:
    if depth > DEEPEST:
        raise Garbled("nested too deep")
    if not isinstance(said, dict):
        return said
    if "at" in said:
        return arrays[said["at"]]
    if "of" in said:
        return {str(name): _made(leaf, arrays, depth + 1) for name, leaf in said["of"].items()}
    kind, fields = KINDS[said["is"]], [_made(field, arrays, depth + 1) for field in said["has"]]
    hints = _hints(kind)
    if len(fields) != len(hints) or not all(_fits(x, hint) for x, hint in zip(fields, hints, strict=True)):
        raise Garbled(f"a {kind.__name__} of other fields")
    return kind(*fields)


@cache
def _hints(kind: Any) -> list[Any]:
    return [get_type_hints(kind)[field] for field in kind._fields]


def _fits(x: Any, hint: Any) -> bool:
    """Whether a value is of a field's type."""
    if isinstance(hint, UnionType):
        return any(_fits(x, each) for each in get_args(hint))
    if get_origin(hint) is dict:
        return isinstance(x, dict) and all(isinstance(leaf, Tensor) for leaf in x.values())
    if hint is float:
        return type(x) in (int, float) and x == x and abs(x) != float("inf")
    if hint in (int, str, bool, NoneType):
        return type(x) is hint
    return isinstance(x, hint)
