"""The official CIFAR batches are Python pickles: here they are read without running anything that is in them.

Two guards. The file's opcodes are gone through first: only those that make plain data and the few names such a batch
holds may occur, no more of them than a batch needs, and nothing that holds other things may be nested deep, stand for a
key or be referred to again, which would cost time without end. Then those names stand for the small functions below,
never for what a pickle would have imported.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput
from baton.regular import read

LARGEST = 64 << 20  # bytes; the official batches have 31 million, pickled by Python 3 in protocol 2 some 45 million
MEMO = 1 << 20  # entries; a batch makes some 20,000
MOST = 400_000  # opcodes; the official batches have some 60,000, one by Python 3 with a name an image some 110,000
SAID = 200  # characters of what was wrong
DEEPEST = 8  # containers in one another; a batch has 2
TEXT, ATOM = (
    -1,
    0,
)  # what is on the stack, as far as it matters: text, another single thing; from 1 on, a container's depth
MADE = {  # opcodes that put one thing on the stack
    **dict.fromkeys(("SHORT_BINSTRING", "BINSTRING", "STRING", "BINUNICODE", "UNICODE"), TEXT),
    **dict.fromkeys(("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "INT", "GLOBAL"), ATOM),
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_DICT"), 1),
}
TAKEN = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "SETITEM": 2, "REDUCE": 2, "BUILD": 1, "POP": 1}
TO_MARK = ("TUPLE", "LIST", "DICT", "APPENDS", "SETITEMS")  # and opcodes that take all down to a mark
INTO = ("APPEND", "APPENDS", "SETITEM", "SETITEMS")  # what they took goes into what is on top then
PUT, GET = ("PUT", "BINPUT", "LONG_BINPUT"), ("GET", "BINGET", "LONG_BINGET")
PLAIN = {"PROTO", "STOP", "MARK", *MADE, *TAKEN, *TO_MARK, *PUT, *GET}


class _Dtype:
    """Unsigned bytes, the only type a batch holds."""

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """An array as numpy pickles it: made empty, then given (version, shape, type, column order, bytes)."""

    array: NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[int, tuple[int, int], _Dtype, bool, bytes]) -> None:
        _, shape, kind, columns, data = state
        if not isinstance(kind, _Dtype) or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array that does not hold unsigned bytes")
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if columns else "C")


class _Reader(pickle.Unpickler):
    """An unpickler for which seven names exist."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        self._left = 2 * LARGEST

    def find_class(self, module: str, name: str) -> Any:
        names = {
            "numpy.core.multiarray _reconstruct": self._empty,
            "numpy._core.multiarray _reconstruct": self._empty,
            "numpy ndarray": None,  # only ever an argument of _reconstruct
            "numpy dtype": self._dtype,
            "_codecs encode": self._encode,  # Python 3 writes bytes so in protocol 2
            "__builtin__ bytes": self._bytes,  # and empty ones so
            "builtins bytes": self._bytes,
        }
        if f"{module} {name}" not in names:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return names[f"{module} {name}"]

    def _empty(self, *_: object) -> _Array:
        return _Array()

    def _dtype(self, kind: object, *_: object) -> _Dtype:
        if kind not in (b"u1", "u1"):
            raise pickle.UnpicklingError(f"an array of {kind!r}")
        return _Dtype()

    def _encode(self, text: str, codec: object) -> bytes:
        if codec not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError(f"the encoding {codec!r}")
        self._left -= len(text)
        if self._left < 0:
            raise pickle.UnpicklingError("more data than a batch holds")
        return text.encode("latin1")

    def _bytes(self) -> bytes:
        return b""


class _Stack:
    """What an unpickler's stack and memo would hold: kinds and depths only."""

    def __init__(self) -> None:
        self.stack: list[int | None] = []  # None: a mark
        self.memo: dict[int, int] = {}

    def take(self, count: int) -> list[int]:
        found = [each for each in self.stack[max(0, len(self.stack) - count) :] if each is not None]
        if len(found) < count:
            raise pickle.UnpicklingError("it takes what is not there")
        del self.stack[len(self.stack) - count :]
        return found

    def down_to_mark(self) -> list[int]:
        found: list[int] = []
        while self.stack:
            last = self.stack.pop()
            if last is None:
                return found[::-1]
            found.append(last)
        raise pickle.UnpicklingError("it takes what is not there")

    def put(self, slot: int) -> None:
        self.memo[slot] = self.take(1)[0]
        self.stack.append(self.memo[slot])

    def get(self, slot: int) -> None:
        if self.memo.get(slot, 1) > ATOM:
            raise pickle.UnpicklingError(f"it refers again to slot {slot}, which holds other things or nothing")
        self.stack.append(self.memo[slot])

    def hold(self, inside: list[int], least: int = 1) -> None:
        depth = max(least, 1 + max(inside, default=ATOM))
        if depth > DEEPEST:
            raise pickle.UnpicklingError(f"it is nested more than {DEEPEST} deep")
        self.stack.append(depth)

    def step(self, name: str, slot: int) -> None:
        """One opcode; slot: of the memo, where it names one."""
        if name in MADE:
            self.stack.append(MADE[name])
        elif name == "MARK":
            self.stack.append(None)
        elif name == "POP" and self.stack and self.stack[-1] is None:
            self.stack.pop()
        elif name in GET:
            self.get(slot)
        elif name in PUT:
            self.put(slot)
        elif name in TAKEN or name in TO_MARK:
            taken = self.take(TAKEN[name]) if name in TAKEN else self.down_to_mark()
            if name in ("DICT", "SETITEM", "SETITEMS") and any(key != TEXT for key in taken[::2]):
                raise pickle.UnpicklingError("it has a key that is no text")
            if name in INTO:
                self.hold(taken, self.take(1)[0])
            elif name == "REDUCE":
                self.stack.append(TEXT)  # or an array: the functions above give nothing that holds other things
            elif name not in ("BUILD", "POP"):
                self.hold(taken)


def _scan(data: bytes) -> None:
    """Refuse what such a batch has no use for, and what would take time or memory for nothing."""
    stack = _Stack()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name, slot = opcode.name, argument if isinstance(argument, int) else 0
        if number >= MOST:
            raise pickle.UnpicklingError(f"it has more than {MOST:,} opcodes")
        if name not in PLAIN:
            raise pickle.UnpicklingError(f"it has the opcode {name}")
        if name in PUT and not 0 <= slot <= MEMO:
            raise pickle.UnpicklingError(f"it has {name} {slot}")
        stack.step(name, slot)


def batch(path: Path, pixels: int) -> tuple[NDArray[np.uint8], list[int]]:
    """A batch's pixels [n, pixels] and labels [n]."""
    data = read(path, LARGEST, field="dataset")
    try:
        _scan(data)
        found = _Reader(data).load()
    except Exception as error:  # a broken pickle can raise anything
        reason = " ".join(str(error)[:SAID].split()) or type(error).__name__
        raise BadInput(f"dataset: {path}: is no official CIFAR batch ({reason}); nothing in it was run") from None
    held, labels = (found.get(b"data"), found.get(b"labels")) if isinstance(found, dict) else (None, None)
    array = held.array if isinstance(held, _Array) else None
    if array is None or not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise BadInput(f"dataset: {path}: is no official CIFAR batch; it must hold b'data' and b'labels'")
    if array.ndim != 2 or array.shape != (len(labels), pixels) or not labels:
        shape = f"data of shape {array.shape} for {len(labels):,} labels"
        raise BadInput(f"dataset: {path}: holds {shape}; {pixels:,} pixels a label is right")
    return array, labels
