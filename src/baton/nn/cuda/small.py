# mypy: ignore-errors
# ruff: noqa: SIM108  the compiler reads both branches
"""Samples, dropout, mean, loss and the step itself."""

import triton
import triton.language as tl

from baton.nn.cuda.draws import absorb, below, start, uniform
from baton.nn.cuda.early import after
from baton.nn.cuda.finish import wide


@triton.jit
def samples(
    pool,
    places,
    keys,
    scale,
    shift,
    out,
    batch,
    C: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    AUGMENT: tl.constexpr,
    PURPOSE: tl.constexpr,
    PAD: tl.constexpr,
    FLAT: tl.constexpr,
    BC: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Stored bytes [C, H, W] -> cropped, flipped and normalised samples, [H, W, C] or, FLAT, [C, H, W]."""
    after()
    image = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    y = p // W
    x = p % W
    inside = p < H * W
    if AUGMENT:
        step = absorb(start(tl.load(keys + image // batch).to(tl.uint64, bitcast=True)), PURPOSE)
        mine = absorb(start(step), (image % batch).to(tl.uint64))
        row = y + below(absorb(start(mine), 0), 2 * PAD + 1) - PAD
        across = tl.where(below(absorb(start(mine), 2), 2) == 1, W - 1 - x, x)
        column = across + below(absorb(start(mine), 1), 2 * PAD + 1) - PAD
        inside = inside & (row >= 0) & (row < H) & (column >= 0) & (column < W)
    else:
        row = y
        column = x
    c = tl.arange(0, BC)
    c_ok = c < C
    place = tl.load(places + image)
    at = (c * (H * W))[:, None] + (row * W + column)[None, :]
    byte = tl.load(pool + place * (C * H * W) + at, mask=c_ok[:, None] & inside[None, :], other=0)
    byte = byte.to(scale.dtype.element_ty)
    value = byte * tl.load(scale + c, mask=c_ok, other=0.0)[:, None] + tl.load(shift + c, mask=c_ok, other=0.0)[:, None]
    to = (c * (H * W))[:, None] + p[None, :] if FLAT else c[:, None] + (p * C)[None, :]
    tl.store(out + image * (C * H * W) + to, value, mask=c_ok[:, None] & (p < H * W)[None, :])


@triton.jit
def dropout(
    x,
    out,
    keys,
    count,
    x_lane,
    p: tl.constexpr,
    LAYER: tl.constexpr,
    CALL: tl.constexpr,
    C: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    FLAT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """x or a gradient, zero where the draw says so; a number's word is its place in torch's order."""
    after()
    lane = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if FLAT:
        place = i
    else:
        place = (i // (H * W * C) * C + i % C) * (H * W) + (i // C) % (H * W)
    h = absorb(absorb(start(tl.load(keys + lane).to(tl.uint64, bitcast=True)), LAYER), CALL)
    keep = uniform(absorb(h, place.to(tl.uint64))) >= p
    value = wide(tl.load(x + lane * x_lane + i, mask=i < count, other=0.0))
    tl.store(out + lane * count + i, tl.where(keep, value / (1.0 - p), 0.0), mask=i < count)


@triton.jit
def mean(x, out, x_lane, batch, C: tl.constexpr, PIXELS: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    """The mean over an image's pixels."""
    after()
    image = tl.program_id(0)
    lane = tl.program_id(2).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    total = tl.zeros((BC,), tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32)
    for first in range(0, PIXELS, BP):
        p = first + tl.arange(0, BP)
        at = (image * PIXELS + p)[:, None] * C + c[None, :]
        ok = (p < PIXELS)[:, None] & (c < C)[None, :]
        total += tl.sum(wide(tl.load(x + lane * x_lane + at, mask=ok, other=0.0)), axis=0)
    tl.store(out + (lane * batch + image) * C + c, total / PIXELS, mask=c < C)


@triton.jit
def loss_gradient(
    logits, y, weight, out, batch, N: tl.constexpr, BN: tl.constexpr, BB: tl.constexpr, BLOCK: tl.constexpr
):
    """(softmax - one hot) x weight / the lane's sum of weights: the gradient of the mean cross-entropy."""
    after()
    lane = tl.program_id(1).to(tl.int64)
    every = tl.arange(0, BLOCK)
    total = tl.sum(wide(tl.load(weight + lane * batch + every, mask=every < batch, other=0.0)))
    i = tl.program_id(0) * BB + tl.arange(0, BB)
    c = tl.arange(0, BN)
    ok = (i < batch)[:, None] & (c < N)[None, :]
    at = (lane * batch + i)[:, None] * N + c[None, :]
    z = tl.load(logits + at, mask=ok, other=float("-inf"))
    z = tl.where((i < batch)[:, None], z, 0.0)
    e = tl.exp(z - tl.max(z, axis=1)[:, None])
    soft = e / tl.sum(e, axis=1)[:, None]
    label = tl.load(y + lane * batch + i, mask=i < batch, other=0)
    mine = wide(tl.load(weight + lane * batch + i, mask=i < batch, other=0.0))
    share = mine / tl.where(total < 1.0, 1.0, total)
    hot = tl.where(c[None, :] == label[:, None], 1.0, 0.0)
    tl.store(out + at, (soft - hot) * share[:, None], mask=ok)


@triton.jit
def sum_parts(g, work, table, squares, size, slots, slot, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr):
    """Gradients that were split, AT_ONCE parts at a time. table [blocks, 5]: at, count, at in work, stride, splits."""
    after()
    lane = tl.program_id(1).to(tl.int64)
    row = table + tl.program_id(0) * 5
    i = tl.arange(0, BLOCK)
    s = tl.arange(0, AT_ONCE)
    at = tl.multiple_of(tl.load(row), 16)
    count = tl.load(row + 1)
    stride = tl.multiple_of(tl.load(row + 3), 16)
    splits = tl.load(row + 4)
    parts = work + tl.multiple_of(tl.load(row + 2), 16) + lane * stride + i[None, :]
    room = (i < (count + 15) // 16 * 16)[None, :]  # parts are padded, so that they can be read 16 bytes at a time
    total = tl.zeros((BLOCK,), g.dtype.element_ty)
    for first in range(0, splits, AT_ONCE):
        split = first + s
        behind = (split * (tl.num_programs(1) * stride))[:, None]
        total += tl.sum(tl.load(parts + behind, mask=room & (split < splits)[:, None], other=0.0), axis=0)
    total = tl.where(i < count, total, 0.0)
    tl.store(g + lane * size + at + i, total, mask=i < count)
    tl.store(squares + lane * slots + slot + tl.program_id(0), tl.sum(total * total))


@triton.jit
def squares_of(g, squares, size, FIRST: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of squares of blocks of g; of what lies from FIRST to LAST, where that is not empty, before all others."""
    after()
    lane = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(g + lane * size + i, mask=i < size, other=0.0)
    if FIRST < LAST:
        own = (i >= FIRST) & (i < LAST)
        squares += lane * tl.num_programs(0)
        mine = tl.where(own, value, 0.0)
        tl.store(squares + lane * tl.num_programs(0) + tl.program_id(0), tl.sum(mine * mine))
        squares += tl.num_programs(0)
        value = tl.where(own, 0.0, value)
    tl.store(squares + lane * tl.num_programs(0) + tl.program_id(0), tl.sum(value * value))


@triton.jit
def shortened(length, most):
    """What a gradient of this length is multiplied by, so that it is no longer than most; 0: any length."""
    ratio = most / (length + 1e-6)
    return tl.where(most > 0, tl.where(ratio > 1, 1.0, ratio), 1.0)


@triton.jit
def step(
    w,
    g,
    squares,
    lr,
    clip,
    decay,
    pull,
    anchor,
    shift,
    momentum,
    velocity,
    out,
    operands,
    size,
    slots,
    anchored,  # lanes in a row that share an anchor
    shifted,
    PULL: tl.constexpr,
    SHIFT: tl.constexpr,
    MOMENTUM: tl.constexpr,
    COPY: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    FIRST_SLOT: tl.constexpr,
    LAST_SLOT: tl.constexpr,
    SLOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """w - lr d, d = g clipped to length + decay w + pull (w - anchor) + shift, and its copy for the products.

    MOMENTUM: w - lr v instead, v = momentum v + d. What lies from FIRST to LAST, where that is not empty, has a length
    of its own, whose squares are from FIRST_SLOT to LAST_SLOT.
    """
    after()
    lane = tl.program_id(1).to(tl.int64)
    s = tl.arange(0, SLOTS)
    parts = tl.load(squares + lane * slots + s, mask=s < slots, other=0.0)
    if FIRST < LAST:
        own = (s >= FIRST_SLOT) & (s < LAST_SLOT)
        length = tl.sqrt(tl.sum(tl.where(own, parts, 0.0)))
        others = tl.sqrt(tl.sum(tl.where(own, 0.0, parts)))
    else:
        length = tl.sqrt(tl.sum(parts))
    most = wide(tl.load(clip + lane))
    scale = shortened(length, most)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if FIRST < LAST:
        scale = tl.where((i >= FIRST) & (i < LAST), scale, shortened(others, most))
    ok = i < size
    old = tl.load(w + lane * size + i, mask=ok, other=0.0)
    slope = tl.load(g + lane * size + i, mask=ok, other=0.0) * scale + wide(tl.load(decay + lane)) * old
    if PULL:
        away = old - tl.load(anchor + lane // anchored * size + i, mask=ok, other=0.0)
        slope += wide(tl.load(pull + lane)) * away
    if SHIFT:
        slope += tl.load(shift + lane // shifted * size + i, mask=ok, other=0.0)
    if MOMENTUM:
        slope += wide(tl.load(momentum + lane)) * tl.load(velocity + lane * size + i, mask=ok, other=0.0)
        tl.store(velocity + lane * size + i, slope, mask=ok)
    new = old - wide(tl.load(lr + lane)) * slope
    tl.store(out + lane * size + i, new, mask=ok)
    if COPY:
        tl.store(operands + lane * size + i, new, mask=ok)


@triton.jit
def direction(start, end, shift, inverse, out, size, started, shifted, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """(start - end) inverse - shift; out may be the shift."""
    after()
    lane = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < size
    moved = tl.load(start + lane // started * size + i, mask=ok, other=0.0)
    moved -= tl.load(end + lane * size + i, mask=ok, other=0.0)
    moved *= tl.load(inverse + lane)
    if SHIFT:
        moved -= tl.load(shift + lane // shifted * size + i, mask=ok, other=0.0)
    tl.store(out + lane * size + i, moved, mask=ok)
