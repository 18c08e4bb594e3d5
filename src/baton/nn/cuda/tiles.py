"""How products are cut into programs: fixed by shapes, lanes and precision, so that a restart gives the same bits."""

from typing import NamedTuple

PROCESSORS = 132  # an H200's; a constant, because the way sums are split must not change with the machine


class Tile(NamedTuple):
    """One program's part of a product, and how it is run."""

    m: int
    n: int
    k: int  # summed up at a time
    warps: int
    stages: int
    splits: int = 1  # programs that share one sum


def _up(n: int) -> int:
    """The next power of two, 16 at least."""
    return max(16, 1 << (n - 1).bit_length())


def _deep(channels: int, most: int) -> int:
    """The largest power of two that divides the channels, if it is worth it."""
    k = most
    while k > 16 and channels % k:
        k //= 2
    return k if channels % k == 0 else min(32, most)


def _cut(m: int, n: int, steps: int, lanes: int, bm: int, bn: int) -> tuple[int, int, int]:
    """(bm, bn, splits) with smaller tiles, then split sums, until the processors are busy."""

    def programs() -> int:
        return -(-m // bm) * -(-n // bn) * lanes

    while programs() < PROCESSORS and bm > 64:
        bm //= 2
    while programs() < PROCESSORS and bn > 64:
        bn //= 2
    splits = 1
    while programs() * splits < PROCESSORS and steps // (splits * 2) >= 3 and splits < 16:
        splits *= 2
    return bm, bn, splits


def forward(m: int, n: int, channels: int, depth: int, lanes: int, precision: str) -> Tile:
    """rows x outputs x inputs of a window."""
    return _product(m, n, channels, depth, lanes, precision)


def to_input(m: int, n: int, channels: int, depth: int, lanes: int, precision: str) -> Tile:
    """rows x inputs x outputs of a window; m: those of one group of pixels."""
    return _product(m, n, channels, depth, lanes, precision)


def _product(m: int, n: int, channels: int, depth: int, lanes: int, precision: str) -> Tile:
    if precision == "fp32":
        bm, bn, bk = min(64, _up(m)), min(64, _up(n)), _deep(channels, 16)
        return Tile(bm, bn, bk, 4, 2, _cut(m, n, -(-depth // bk), lanes, bm, bn)[2])
    bk = _deep(channels, 64 if precision == "bf16" else 32)
    bm, bn = min(128, _up(m)), min(128, _up(n))
    if m % 128 and m % 64 == 0:
        bm = min(64, bm)
        bn = min(256, _up(n)) if precision == "bf16" else bn
    bm, bn, splits = _cut(m, n, -(-depth // bk), lanes, bm, bn)
    return Tile(bm, bn, bk, 8 if bm * bn > 128 * 64 else 4, 4 if bk <= 32 else 3, splits)


def to_weights(m: int, n: int, channels: int, rows: int, lanes: int, precision: str) -> Tile:
    """outputs x inputs of a window, over rows."""
    if precision == "fp32":
        bm, bn, bk = min(64, _up(m)), min(64, _up(n)), 16
    else:
        bk = 64 if precision == "bf16" and rows % 64 == 0 else 32
        bm = min(128, _up(m))
        bn = min(128, _up(n))
        if channels % 64 == 0:
            bn = min(bn, 128 if channels % 128 == 0 else 64)
    splits, steps = 1, -(-rows // bk)
    while -(-m // bm) * -(-n // bn) * lanes * splits < PROCESSORS and steps // (splits * 2) >= 2 and splits < 128:
        splits *= 2
    if precision == "fp32":
        return Tile(bm, bn, bk, 4, 2, splits)
    return Tile(bm, bn, bk, 8 if bm * bn > 128 * 64 else 4, 3, splits)
