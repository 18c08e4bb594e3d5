"""The structs that leg.c is handed, as ctypes has them, under the names they have there."""

import ctypes


class Outline(ctypes.Structure):
    """A stage of a chain: stage.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("kind", "side", "c", "h", "w", "oc", "oh", "ow")),
        *((name, ctypes.c_int64) for name in ("kernel", "stride", "padding")),
        *((name, ctypes.c_int64) for name in ("relu", "pool", "weight", "bias", "threshold", "number", "call")),
        ("scale", ctypes.c_double),
    )


class Pool(ctypes.Structure):
    """The samples of all lanes: leg.c."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("y", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("samples", "planes", "plane")),
        *((name, ctypes.c_void_p) for name in ("scale", "shift")),
    )


class Job(ctypes.Structure):
    """A leg or an evaluation of all lanes: leg.c."""

    _fields_ = (
        ("outlines", ctypes.c_void_p),
        ("stages", ctypes.c_int64),
        ("pool", Pool),
        *((name, ctypes.c_void_p) for name in ("params", "results", "sizes")),
        *((name, ctypes.c_int64) for name in ("lanes", "steps", "batch", "repeat")),
        *((name, ctypes.c_void_p) for name in ("lr", "clip", "decay", "momentum", "pull", "anchor", "shift")),
        *((name, ctypes.c_int64) for name in ("anchor_repeat", "shift_repeat")),
        *((name, ctypes.c_void_p) for name in ("velocity", "direction", "inverse", "square")),
        ("apart", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("places", "weight", "key")),
        *((name, ctypes.c_int64) for name in ("shared", "block", "threads", "split")),
        *((name, ctypes.c_void_p) for name in ("logits", "space")),
        ("floats", ctypes.c_int64),
    )


CONV, LINEAR, POOL, RELU, DROPOUT = range(5)  # Outline.kind
NO_SPACE, NO_MEMORY, BAD_INDEX = range(1, 4)  # what a call may return beside 0


MIRRORS: tuple[type[ctypes.Structure], ...] = (Outline, Pool, Job)


def check(code: ctypes.CDLL) -> None:
    """That the library has these structs too: their sizes, and where their last fields are."""
    given = iter((ctypes.c_int64 * (2 * len(MIRRORS))).in_dll(code, "baton_structs"))
    for mirror in MIRRORS:
        last = getattr(mirror, mirror._fields_[-1][0]).offset
        ours, its = (ctypes.sizeof(mirror), last), (next(given), next(given))
        if ours != its:
            raise TypeError(
                f"{mirror.__name__}: {ours[0]} bytes, the last field at {ours[1]}, in structs.py; in C {its[0]} bytes, "
                f"the last field at {its[1]}"
            )
