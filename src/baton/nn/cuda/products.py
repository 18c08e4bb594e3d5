# mypy: ignore-errors
# ruff: noqa: RET505  the compiler reads both branches
"""Convolutions over lanes as implicit matrix products: no unfolded image in memory. A linear layer is one of 1 x 1.

Images are [L, b, H, W, C], weights [O, size, size, C] in each lane's arena. Numbers of one lane are addressed
in 32 bits.
"""

import triton
import triton.language as tl

from baton.nn.cuda.early import after
from baton.nn.cuda.finish import finish_forward, finish_gradient, pixel, wide


@triton.jit
def _load(pointers, mask, MASKED: tl.constexpr):
    if MASKED:
        return tl.load(pointers, mask=mask, other=0.0)
    else:
        return tl.load(pointers)


@triton.jit
def _span(total, SPLITS: tl.constexpr):
    """The program's part of the steps 0..total-1."""
    if SPLITS == 1:
        return 0, total
    else:
        each = (total + SPLITS - 1) // SPLITS
        first = tl.program_id(1) * each
        return first, tl.minimum(first + each, total)


@triton.jit
def _keep_part(work, acc, m, rows, cols, N: tl.constexpr):
    """One split's part of a product, to be summed up by a later kernel."""
    lane = tl.program_id(2).to(tl.int64)
    part = work + (tl.program_id(1) * tl.num_programs(2) + lane) * rows * N
    tl.store(part + m[:, None] * N + cols[None, :], acc, mask=(m < rows)[:, None] & (cols < N)[None, :])


@triton.jit
def forward(
    x,
    w,
    flat,
    residual,
    out,
    which,
    work,
    x_lane,  # from one lane's samples to the next; 0: all lanes read the same
    r_lane,
    size,  # of the arena
    w_at,
    b_at,
    rows,  # of the product: those that pooling keeps
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    OC: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PAD: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    RELU: tl.constexpr,
    POOL: tl.constexpr,
    KEEP: tl.constexpr,
    FLAT: tl.constexpr,
    SPLITS: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """out[m, o] = sum over k of x[m, k] w[o, k]; with SPLITS parts of that sum go to `work`."""
    SUM: tl.constexpr = tl.float64 if flat.dtype.element_ty == tl.float64 else tl.float32
    K: tl.constexpr = SIZE * SIZE * C
    NT: tl.constexpr = (OC + BN - 1) // BN
    lane = tl.program_id(2).to(tl.int64)
    m = (tl.program_id(0) // NT) * BM + tl.arange(0, BM)
    cols = (tl.program_id(0) % NT) * BN + tl.arange(0, BN)
    n, y, z = pixel(tl.minimum(m, rows - 1), HO, WO, POOL)
    top = y * STRIDE - PAD
    left = z * STRIDE - PAD
    corner = ((n * H + top) * W + left) * C
    mine = x + lane * x_lane
    weights = w + lane * size + w_at + tl.minimum(cols, OC - 1) * K
    ar = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), SUM)
    EDGE: tl.constexpr = PAD > 0
    first, last = _span((K + BK - 1) // BK, SPLITS)
    after()
    for it in range(first, last):
        if C % BK == 0:  # one tap of the window at a time
            tap = it // (C // BK)
            dy = tap // SIZE
            dx = tap % SIZE
            ok = (top + dy >= 0) & (top + dy < H) & (left + dx >= 0) & (left + dx < W)
            at = corner + (dy * W + dx) * C + (it % (C // BK)) * BK
            a = _load(mine + at[:, None] + ar[None, :], ok[:, None], EDGE)
            b = tl.load(weights[:, None] + (it * BK + ar)[None, :])
        else:
            k = it * BK + ar
            dy = k // (C * SIZE)
            dx = (k // C) % SIZE
            inside = (k < K)[None, :]
            if EDGE:
                down = top[:, None] + dy[None, :]
                right = left[:, None] + dx[None, :]
                inside = inside & (down >= 0) & (down < H) & (right >= 0) & (right < W)
            at = (dy * W + dx) * C + k % C
            a = tl.load(mine + corner[:, None] + at[None, :], mask=inside, other=0.0)
            b = tl.load(weights[:, None] + k[None, :], mask=(k < K)[None, :], other=0.0)
        acc = tl.dot(a, b.T, acc, input_precision=PRECISION, out_dtype=SUM)
    if SPLITS > 1:
        _keep_part(work, acc, m, rows, cols, OC)
    else:
        finish_forward(
            *(acc, m, cols, rows, flat + lane * size + b_at, residual, out, which, r_lane),
            *(HO, WO, OC, BIAS, RESIDUAL, RELU, POOL, KEEP, FLAT, BM, BN),
        )


@triton.jit
def sum_forward(
    flat,
    residual,
    out,
    which,
    work,
    r_lane,
    size,
    b_at,
    rows,
    HO: tl.constexpr,
    WO: tl.constexpr,
    OC: tl.constexpr,
    BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    RELU: tl.constexpr,
    POOL: tl.constexpr,
    KEEP: tl.constexpr,
    FLAT: tl.constexpr,
    SPLITS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """The end of `forward` for a product that was split."""
    SUM: tl.constexpr = tl.float64 if flat.dtype.element_ty == tl.float64 else tl.float32
    after()
    NT: tl.constexpr = (OC + BN - 1) // BN
    lane = tl.program_id(2).to(tl.int64)
    m = (tl.program_id(0) // NT) * BM + tl.arange(0, BM)
    cols = (tl.program_id(0) % NT) * BN + tl.arange(0, BN)
    at = m[:, None] * OC + cols[None, :]
    ok = (m < rows)[:, None] & (cols < OC)[None, :]
    acc = tl.zeros((BM, BN), SUM)
    for split in range(SPLITS):
        acc += tl.load(work + (split * tl.num_programs(2) + lane) * rows * OC + at, mask=ok, other=0.0)
    finish_forward(
        *(acc, m, cols, rows, flat + lane * size + b_at, residual, out, which, r_lane),
        *(HO, WO, OC, BIAS, RESIDUAL, RELU, POOL, KEEP, FLAT, BM, BN),
    )


@triton.jit
def to_input(
    d,
    w,
    x,
    other,
    which,
    out,
    work,
    size,
    w_at,
    rows,  # of the input, one in STRIDE both ways
    scale: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    OC: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PAD: tl.constexpr,
    MASK: tl.constexpr,
    ADD: tl.constexpr,
    PC: tl.constexpr,
    PH: tl.constexpr,
    PW: tl.constexpr,
    UNPOOL: tl.constexpr,
    FLAT: tl.constexpr,
    SPLITS: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """The gradient at the product's input. Pixels that meet the same taps of the window are one group of STRIDE^2."""
    SUM: tl.constexpr = tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32
    K: tl.constexpr = SIZE * SIZE * C
    NT: tl.constexpr = (C + BN - 1) // BN
    HG: tl.constexpr = (H + STRIDE - 1) // STRIDE
    WG: tl.constexpr = (W + STRIDE - 1) // STRIDE
    lane = tl.program_id(2).to(tl.int64)
    tiles = tl.cdiv(rows, BM) * NT
    group = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    m = (tile // NT) * BM + tl.arange(0, BM)
    cols = (tile % NT) * BN + tl.arange(0, BN)
    n, y, z = pixel(tl.minimum(m, rows - 1), HG, WG, False)
    down = group // STRIDE
    right = group % STRIDE
    ky = (down + PAD) % STRIDE  # the first tap that meets a whole step
    kx = (right + PAD) % STRIDE
    high = (SIZE - ky + STRIDE - 1) // STRIDE
    wide = (SIZE - kx + STRIDE - 1) // STRIDE
    bottom = y + (down + PAD - ky) // STRIDE
    last_x = z + (right + PAD - kx) // STRIDE
    mine = d + lane * (rows // (HG * WG)) * (HO * WO * OC)
    corner = ((n * HO + bottom) * WO + last_x) * OC
    weights = w + lane * size + w_at
    ar = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), SUM)
    OB: tl.constexpr = (OC + BK - 1) // BK
    EDGE: tl.constexpr = SIZE > 1 or STRIDE > 1 or PAD > 0
    WHOLE: tl.constexpr = OC % BK == 0
    first, last = _span(high * wide * OB, SPLITS)
    after()
    for it in range(first, last):
        tap = it // OB
        o = (it % OB) * BK + ar
        dy = tap // wide
        dx = tap % wide
        ok = ((bottom - dy >= 0) & (bottom - dy < HO) & (last_x - dx >= 0) & (last_x - dx < WO))[:, None]
        if not WHOLE:
            ok = ok & (o < OC)[None, :]
        at = corner - (dy * WO + dx) * OC
        a = _load(mine + at[:, None] + o[None, :], ok, EDGE or not WHOLE)
        k = ((ky + STRIDE * dy) * SIZE + kx + STRIDE * dx) * C + cols
        b_ok = (o < OC)[:, None] & (cols < C)[None, :]
        b = _load(weights + o[:, None] * K + k[None, :], b_ok, not WHOLE or C % BN != 0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=SUM)
    if SPLITS > 1:
        _keep_part(work, acc, m, rows, cols, C)
    else:
        y = y * STRIDE + down
        z = z * STRIDE + right
        ok = (m < rows) & (y < H) & (z < W)
        finish_gradient(
            *(acc, n, y, z, ok, cols, lane * (rows // (HG * WG)), x, other, which, out, scale),
            *(H, W, C, MASK, ADD, PC, PH, PW, UNPOOL, FLAT),
        )


@triton.jit
def sum_input(
    x,
    other,
    which,
    out,
    work,
    rows,
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
    AVERAGE: tl.constexpr,
    SPLITS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """The end of `to_input` for a product that was split. AVERAGE: `work` is the gradient at the image's mean."""
    SUM: tl.constexpr = tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32
    after()
    NT: tl.constexpr = (C + BN - 1) // BN
    lane = tl.program_id(2).to(tl.int64)
    m = (tl.program_id(0) // NT) * BM + tl.arange(0, BM)
    cols = (tl.program_id(0) % NT) * BN + tl.arange(0, BN)
    n, y, z = pixel(tl.minimum(m, rows - 1), H, W, False)
    images = rows // (H * W)
    ok = (m < rows)[:, None] & (cols < C)[None, :]
    if AVERAGE:
        at = (lane * images + n)[:, None] * C + cols[None, :]
        acc = wide(tl.load(work + at, mask=ok, other=0.0)) / (H * W)
    else:
        acc = tl.zeros((BM, BN), SUM)
        at = m[:, None] * C + cols[None, :]
        for split in range(SPLITS):
            part = work + (split * tl.num_programs(2) + lane) * rows * C
            acc += wide(tl.load(part + at, mask=ok, other=0.0))
    finish_gradient(
        *(acc, n, y, z, m < rows, cols, lane * images, x, other, which, out, scale),
        *(H, W, C, MASK, ADD, PC, PH, PW, UNPOOL, FLAT),
    )


@triton.jit
def to_weights(
    d,
    x,
    g,
    squares,
    work,
    x_lane,
    size,
    w_at,
    b_at,
    part,  # numbers in one split's part
    b_part,  # where the bias is in it
    slots,
    slot,
    rows,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    OC: tl.constexpr,
    SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PAD: tl.constexpr,
    SPLITS: tl.constexpr,
    PRECISION: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """g[o, k] = sum over m of d[m, o] x[m, k]; programs past the last tile sum up d for the bias.

    Without SPLITS the sum of squares of each tile goes to squares[lane, slot + tile]; otherwise parts go to
    work [SPLITS, L, part].
    """
    SUM: tl.constexpr = tl.float64 if g.dtype.element_ty == tl.float64 else tl.float32
    K: tl.constexpr = SIZE * SIZE * C
    OT: tl.constexpr = (OC + BM - 1) // BM
    KT: tl.constexpr = (K + BN - 1) // BN
    lane = tl.program_id(2).to(tl.int64)
    tile = tl.program_id(0)
    first, last = _span((rows + BK - 1) // BK, SPLITS)
    after()
    mine = d + lane * rows * OC
    ar = tl.arange(0, BK)
    if SPLITS == 1:
        kernel = g + lane * size + w_at
        offset = g + lane * size + b_at
    else:
        kernel = work + (tl.program_id(1) * tl.num_programs(2) + lane) * part
        offset = kernel + b_part
    if tile >= OT * KT:  # the bias
        o = (tile - OT * KT) * BM + tl.arange(0, BM)
        total = tl.zeros((BM,), SUM)
        for it in range(first, last):
            m = it * BK + ar
            ok = (m < rows)[:, None] & (o < OC)[None, :]
            total += tl.sum(wide(tl.load(mine + m[:, None] * OC + o[None, :], mask=ok, other=0.0)), axis=0)
        tl.store(offset + o, total, mask=o < OC)
        square = tl.sum(total * total)
    else:
        o = (tile // KT) * BM + tl.arange(0, BM)
        k = (tile % KT) * BN + tl.arange(0, BN)
        images = x + lane * x_lane
        EDGE: tl.constexpr = PAD > 0
        acc = tl.zeros((BM, BN), SUM)
        if C % BN == 0:  # all of the tile at one tap of the window
            tap = (tile % KT) // (C // BN)
            dy = tap // SIZE - PAD
            dx = tap % SIZE - PAD
        else:
            dy = (k // (C * SIZE))[None, :] - PAD
            dx = ((k // C) % SIZE)[None, :] - PAD
        for it in range(first, last):
            m = it * BK + ar
            d_ok = (m < rows)[:, None]
            if OC % BM != 0:
                d_ok = d_ok & (o < OC)[None, :]
            a = tl.load(mine + m[:, None] * OC + o[None, :], mask=d_ok, other=0.0)
            n, y, z = pixel(tl.minimum(m, rows - 1), HO, WO, False)
            down = (y * STRIDE)[:, None] + dy
            right = (z * STRIDE)[:, None] + dx
            at = ((n * H)[:, None] + down) * W + right
            if EDGE:
                ok = (down >= 0) & (down < H) & (right >= 0) & (right < W)
                if K % BN != 0:
                    ok = ok & (k < K)[None, :]
            else:
                ok = (k < K)[None, :]
            b = _load(images + at * C + (k % C)[None, :], ok, EDGE or K % BN != 0)
            acc = tl.dot(a.T, b, acc, input_precision=PRECISION, out_dtype=SUM)
        tl.store(kernel + o[:, None] * K + k[None, :], acc, mask=(o < OC)[:, None] & (k < K)[None, :])
        square = tl.sum(acc * acc)
    if SPLITS == 1:
        tl.store(squares + lane * slots + slot + tile, square)
