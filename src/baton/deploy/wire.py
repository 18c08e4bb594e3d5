"""Messages as bytes, and back: every field is held to its type and its bounds before anybody sees it."""

import math
from collections.abc import Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from baton.deploy import messages
from baton.deploy.frames import Garbled, joined, parted
from baton.deploy.messages import PARTS, Message, Refused

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (*get_args(Message), *PARTS)}
DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "int64", "uint8")}
DEEPEST = 8  # how far messages are nested
MOST = 1 << 53  # of any whole number: up to here a float64 holds it as it is
RANGES = {("Here", "samples"): (-1, MOST), ("Order", "seed"): (0, (1 << 63) - 1)}  # of those that are not 0 to MOST
LONGEST = 256  # characters of a name
TEXTS = {"setting": 1 << 16}  # of fields that are no names


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
    except Exception:  # whatever a sender may think of: what cannot be read is no message
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
        if name not in DTYPES or len(shape) > 8 or not all(_whole(n, 0, MOST) for n in shape):
            raise Garbled("an array of another kind")
        if math.prod(max(1, n) for n in shape) > MOST:  # also where it has no numbers: a shape has strides
            raise Garbled("an array of another kind")
        kind = DTYPES[name]
        size = math.prod(shape) * kind.itemsize
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
        if not _whole(said["at"], 0, len(arrays) - 1):
            raise Garbled("an array that is not there")
        return arrays[said["at"]]
    if "of" in said:
        return {name: _made(leaf, arrays, depth + 1) for name, leaf in said["of"].items()}
    kind, fields = KINDS[said["is"]], [_made(field, arrays, depth + 1) for field in said["has"]]
    hints = _hints(kind)
    if len(fields) != len(hints):
        raise Garbled(f"a {kind.__name__} of other fields")
    for value, (field, hint) in zip(fields, hints.items(), strict=True):
        if not _fits(value, hint, kind.__name__, field):
            raise Garbled(f"a {kind.__name__} of other fields: {field}")
    return kind(*fields)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field: hints[field] for field in kind._fields}


def _fits(x: Any, hint: Any, kind: str, field: str) -> bool:
    """Whether a value is of a field's type, and within its bounds."""
    if isinstance(hint, UnionType):
        return any(_fits(x, each, kind, field) for each in get_args(hint))
    if get_origin(hint) is dict:
        return isinstance(x, dict) and all(len(n) <= LONGEST and isinstance(leaf, Tensor) for n, leaf in x.items())
    if hint is int:
        return _whole(x, *RANGES.get((kind, field), (0, MOST)))
    if hint is float:
        return _whole(x, -MOST, MOST) or (type(x) is float and math.isfinite(x))
    if hint is str:
        return type(x) is str and len(x) <= TEXTS.get(field, LONGEST)
    if hint in (bool, NoneType):
        return type(x) is hint
    return isinstance(x, hint)


def _whole(x: Any, least: int, most: int) -> bool:
    return type(x) is int and least <= x <= most
