"""How products are cut into programs: fixed by shapes, lanes and precision, so that a restart gives the same bits.

The rules are what was fastest on an H200 for the layers of vgg9 and resnet18 in bf16 with 1 to 96 lanes; the last few
percent were left where they would have cost a rule of their own.
"""

from typing import NamedTuple

PROCESSORS = 132  # an H200's; a constant, because the way sums are split must not change with the machine
BUSY = 99  # programs from which on smaller tiles no longer help
LONG = 24  # steps of a sum from which on splitting it is worth a second kernel
SHORT = 512  # rows up to which a weight's sum is not split
PARTS = 64  # the most a sum is split into
FULL = ("fp32", "fp64")  # operands of all their digits: smaller tiles


class Tile(NamedTuple):
    """One program's part of a product, and how it is run."""

    m: int
    n: int
    k: int  # summed up at a time
    warps: int
    stages: int
    splits: int = 1  # programs that share one sum


def _up(n: int, most: int) -> int:
    """The next power of two, 16 at least."""
    return min(most, max(16, 1 << (n - 1).bit_length()))


def _deep(channels: int, most: int) -> int:
    """The largest power of two that divides the channels, if it is worth it."""
    k = most
    while k > 16 and channels % k:
        k //= 2
    return k if channels % k == 0 else min(32, most)


def forward(m: int, n: int, channels: int, depth: int, lanes: int, precision: str) -> Tile:
    """rows x outputs x inputs of a window."""
    return _product(m, n, channels, depth, lanes, precision, False)


def to_input(m: int, n: int, channels: int, depth: int, lanes: int, precision: str, unpool: bool) -> Tile:
    """rows x inputs x outputs of a window; m: those of one group of pixels; unpool: writes four times as much."""
    return _product(m, n, channels, depth, lanes, precision, unpool)


def _product(m: int, n: int, channels: int, depth: int, lanes: int, precision: str, unpool: bool) -> Tile:
    most = 64 if precision in FULL else 128
    bm, bn = _up(m, most), _up(n, most)
    bk = _deep(channels, {"bf16": 64, "tf32": 32}.get(precision, 16))
    steps = -(-depth // bk)

    def programs() -> int:
        return -(-m // bm) * -(-n // bn) * lanes

    if -m % bm > m // 8 and -m % 64 < -m % bm:  # too much of the last tile would be empty
        bm = 64
    if programs() < BUSY or (unpool and channels % 128 == 0 and m > 128 and precision == "bf16"):
        bm = min(bm, 64)
        bn = bn if programs() >= BUSY and not unpool else min(bn, 64)
    splits = 1
    if programs() < BUSY and steps >= LONG:
        splits = min((PROCESSORS + 16) // programs(), steps // 4, 8)
        splits = -(-steps // -(-steps // splits))
    elif programs() < BUSY:
        bn = min(bn, 32)
    if precision in FULL:
        return Tile(bm, bn, bk, 4, 2, splits)
    if precision == "bf16" and bm == bn == 64 and channels % 128 == 0 and splits == 1:
        return Tile(bm, bn, 128, 4, 3)
    warps = 8 if bm * bn > 128 * 64 and precision == "tf32" else 4
    return Tile(bm, bn, bk, warps, 4 if bm <= 64 or bk <= 32 else 3, splits)


def to_weights(m: int, n: int, channels: int, rows: int, lanes: int, precision: str) -> Tile:
    """outputs x inputs of a window, over rows."""
    most = 64 if precision in FULL else 128
    bm, bn = _up(m, most), _up(n, most)
    if channels % 64 == 0 and channels % 128:
        bn = min(bn, 64)  # one tap of the window

    def programs() -> int:
        return -(-m // bm) * -(-n // bn) * lanes

    if rows <= SHORT:
        bm = min(bm, 64) if programs() < PROCESSORS else bm
        bn = min(bn, 64) if programs() < PROCESSORS // 2 else bn
    bk = _steps(bm, bn, rows, precision)
    splits = 1
    while rows > SHORT and programs() * splits < PROCESSORS and rows // bk >= splits * 4 and splits < PARTS:
        splits *= 2
    if precision in FULL:
        return Tile(bm, bn, bk, 4, 2, splits)
    warps = 8 if bm * bn > 128 * 64 and precision == "tf32" else 4
    return Tile(bm, bn, bk, warps, 4 if bk == 32 and bm * bn <= 128 * 64 else 3, splits)


def _steps(bm: int, bn: int, rows: int, precision: str) -> int:
    """Rows summed up at a time."""
    if precision in FULL:
        return 16
    if precision == "tf32" or bm * bn > 128 * 64 or (rows <= 256 and rows % 64):
        return 32
    return 128 if bn <= 32 and rows > SHORT else 64
