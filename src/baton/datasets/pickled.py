"""The official CIFAR batches are Python pickles: here they are read without running anything that is in them.

Two guards. The file's opcodes are listed first, and only those that make plain data and the few names such a batch
holds may occur. Then those names stand for the small functions below, never for what a pickle would have imported.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput

LARGEST = 64 << 20  # bytes; the official batches have 31 million, pickled by Python 3 in protocol 2 some 45 million
MEMO = 1 << 20  # entries; a batch makes some 20,000
PLAIN = {  # opcodes that make plain data, refer to it, or give a name its arguments
    *("PROTO", "STOP", "MARK", "POP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "INT"),
    *("SHORT_BINSTRING", "BINSTRING", "STRING", "BINUNICODE", "UNICODE", "EMPTY_LIST", "LIST", "APPEND", "APPENDS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"),
    *("GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT", "LONG_BINPUT", "GLOBAL", "REDUCE", "BUILD"),
}


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


def _scan(data: bytes) -> None:
    """Refuse opcodes that such a batch has no use for, and memo indices that would take memory for nothing."""
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name not in PLAIN:
            raise pickle.UnpicklingError(f"it has the opcode {opcode.name}")
        if opcode.name in ("PUT", "LONG_BINPUT") and not 0 <= int(argument or 0) <= MEMO:
            raise pickle.UnpicklingError(f"it has {opcode.name} {argument}")


def batch(path: Path, pixels: int) -> tuple[NDArray[np.uint8], list[int]]:
    """A batch's pixels [n, pixels] and labels [n]."""
    size = path.stat().st_size
    if size > LARGEST:
        raise BadInput(f"dataset: {path}: has {size:,} bytes; a CIFAR batch has no more than {LARGEST:,}")
    data = path.read_bytes()
    try:
        _scan(data)
        found = _Reader(data).load()
    except Exception as error:  # a broken pickle can raise anything
        reason = str(error) or type(error).__name__
        raise BadInput(f"dataset: {path}: is no official CIFAR batch ({reason}); nothing in it was run") from None
    held, labels = (found.get(b"data"), found.get(b"labels")) if isinstance(found, dict) else (None, None)
    array = held.array if isinstance(held, _Array) else None
    if array is None or not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise BadInput(f"dataset: {path}: is no official CIFAR batch; it must hold b'data' and b'labels'")
    if array.ndim != 2 or array.shape != (len(labels), pixels) or not labels:
        shape = f"data of shape {array.shape} for {len(labels):,} labels"
        raise BadInput(f"dataset: {path}: holds {shape}; {pixels:,} pixels a label is right")
    return array, labels
