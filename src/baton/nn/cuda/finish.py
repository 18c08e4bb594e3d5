# mypy: ignore-errors
# ruff: noqa: RET505  the compiler reads both branches
"""What comes after a product, while it is still in registers; and in which type sums are kept."""

import triton
import triton.language as tl


@triton.jit
def wide(x):
    """Numbers as they are summed up: float64 where they are, otherwise float32."""
    if x.dtype == tl.float64:
        return x
    else:
        return x.to(tl.float32)


@triton.jit
def pixel(m, H: tl.constexpr, W: tl.constexpr, POOL: tl.constexpr):
    """Row m of a product as (image, y, x). POOL: the four members of a pooling window follow each other."""
    if POOL:
        HP: tl.constexpr = H // 2
        WP: tl.constexpr = W // 2
        window = m // 4
        n = window // (HP * WP)
        y = (window // WP) % HP * 2 + (m // 2) % 2
        x = window % WP * 2 + m % 2
    else:
        n = m // (H * W)
        y = (m // W) % H
        x = m % W
    return n, y, x


@triton.jit
def finish_forward(
    acc,
    m,
    cols,
    rows,
    bias,
    residual,
    out,
    which,
    r_lane,
    HO: tl.constexpr,
    WO: tl.constexpr,
    OC: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    RELU: tl.constexpr,
    POOL: tl.constexpr,
    KEEP: tl.constexpr,
    FLAT: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Bias, shortcut, ReLU, pooling; which: the member of its window that each pooled number is."""
    lane = tl.program_id(2).to(tl.int64)
    col_ok = cols < OC
    if BIAS:
        acc += tl.load(bias + cols, mask=col_ok, other=0.0)[None, :]
    if RESIDUAL:
        n, y, x = pixel(m, HO, WO, POOL)
        at = ((n * HO + y) * WO + x)[:, None] * OC + cols[None, :]
        ok = (m < rows)[:, None] & col_ok[None, :]
        acc += wide(tl.load(residual + lane * r_lane + at, mask=ok, other=0.0))
    if RELU:
        acc = tl.where(acc < 0, 0.0, acc)  # keeps NaN
    H: tl.constexpr = HO // 2 if POOL else HO
    W: tl.constexpr = WO // 2 if POOL else WO
    if POOL:
        four = tl.reshape(acc, (BM // 4, 4, BN))
        strange = tl.sum(tl.where(four == four, 0, 1), axis=1) > 0  # the maximum would lose NaN
        best = tl.where(strange, float("nan"), tl.max(four, axis=1))
        place = tl.arange(0, 4)[None, :, None]
        winner = tl.min(tl.where(four == best[:, None, :], place, 4), axis=1)
        row = (tl.program_id(0) // ((OC + BN - 1) // BN)) * (BM // 4) + tl.arange(0, BM // 4)
        count = rows // 4
        value = best
    else:
        row = m
        count = rows
        value = acc
    if FLAT:
        at = (row // (H * W) * (OC * H * W) + row % (H * W))[:, None] + cols[None, :] * (H * W)
    else:
        at = row[:, None] * OC + cols[None, :]
    ok = (row < count)[:, None] & col_ok[None, :]
    tl.store(out + lane * count * OC + at, value, mask=ok)
    if POOL and KEEP:
        tl.store(which + lane * count * OC + at, winner.to(tl.uint8), mask=ok)


@triton.jit
def finish_gradient(
    acc,
    n,
    y,
    z,
    row_ok,
    cols,
    before,  # images of the lanes before this one
    x,
    other,
    which,
    out,
    scale: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    MASK: tl.constexpr,
    ADD: tl.constexpr,
    PC: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    UNPOOL: tl.constexpr,
    FLAT: tl.constexpr,
):
    """The gradient at an operation's output, on to its product [PH, PW, PC]: ADD others', MASK by ReLU, UNPOOL.

    FLAT: the output was read as rows of C = PC x (its H) x (its W) numbers.
    """
    ok = row_ok[:, None] & (cols < C)[None, :]
    base = before * (H * W * C)
    at = ((n * H + y) * W + z)[:, None] * C + cols[None, :]
    if ADD:
        acc += wide(tl.load(other + base + at, mask=ok, other=0.0))
    if MASK:
        acc = tl.where(tl.load(x + base + at, mask=ok, other=0.0) > 0, acc * scale, 0.0)
    if FLAT:
        OH: tl.constexpr = PH // 2 if UNPOOL else PH
        OW: tl.constexpr = PW // 2 if UNPOOL else PW
        channel = (cols // (OH * OW))[None, :]
        down = ((cols // OW) % OH)[None, :]
        right = (cols % OW)[None, :]
    else:
        channel = cols[None, :]
        down = y[:, None]
        right = z[:, None]
    if UNPOOL:
        winner = tl.load(which + base + at, mask=ok, other=0)
        for place in tl.static_range(4):
            pixels = (n[:, None] * PH + down * 2 + place // 2) * PW + right * 2 + place % 2
            to = out + before * (PH * PW * PC) + pixels * PC + channel
            tl.store(to, tl.where(winner == place, acc, 0.0), mask=ok)
    elif FLAT:
        pixels = (n[:, None] * PH + down) * PW + right
        tl.store(out + before * (PH * PW * PC) + pixels * PC + channel, acc, mask=ok)
    else:
        tl.store(out + base + at, acc, mask=ok)
