"""Kernels called for operations: shapes and tiles from the recipe, memory from torch."""

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor

from baton.nn.cuda import products, small, tiles
from baton.nn.cuda.early import programs
from baton.nn.cuda.recipe import ALIGN, Leaf, Op
from baton.nn.cuda.tiles import Tile

INPUT_PRECISION = {"bf16": "tf32", "tf32": "tf32", "fp32": "ieee", "fp64": "ieee"}  # bf16 and fp64 have no choice


def _lane(x: Tensor, lanes: int) -> int:
    """From one lane's numbers to the next; 0 where all lanes read the same."""
    return 0 if len(x) < lanes else x.stride(0)


def _cut(tile: Tile, precision: str) -> dict[str, int | str]:
    """A product's constants: how it is cut into programs, and how they run."""
    blocks = {"SPLITS": tile.splits, "BM": tile.m, "BN": tile.n, "BK": tile.k}
    run = {"num_warps": tile.warps, "num_stages": tile.stages}
    return {"PRECISION": INPUT_PRECISION[precision], **blocks, **run}


def forward(
    op: Op,
    leaves: dict[str, Leaf],
    x: Tensor,
    operands: Tensor,
    flat: Tensor,
    residual: Tensor | None,
    dtype: torch.dtype,
    keep: bool,
    precision: str,
    tile: Tile | None = None,
) -> tuple[Tensor, Tensor | None]:
    """(what op puts out [L, b, ...], which member of its window each pooled number is, where `keep`)."""
    lanes, batch = len(flat), x.shape[1]
    (c, h, w), (o, ho, wo) = op.inside, op.outside
    rows = batch * prod(op.shape[1:]) * (4 if op.pool else 1)
    tile = tile or tiles.forward(rows, o, c, op.depth, lanes, precision)
    shape = op.shape if op.flat else (*op.shape[1:], o)
    out = torch.empty((lanes, batch, *shape), dtype=dtype, device=flat.device)
    which = torch.empty(out.shape, dtype=torch.uint8, device=flat.device) if op.pool and keep else None
    work = torch.empty((tile.splits, lanes, rows, o), dtype=flat.dtype, device=flat.device) if tile.splits > 1 else out
    added, seen = out if residual is None else residual, out if which is None else which
    b_at = leaves[op.bias].at if op.bias else 0
    after = {"BIAS": op.bias != "", "RESIDUAL": residual is not None, "RELU": op.relu, "POOL": op.pool}
    after |= {"KEEP": which is not None, "FLAT": op.flat}
    grid = (-(-rows // tile.m) * -(-o // tile.n), tile.splits, lanes)
    programs(products.forward, grid)(
        *(x, operands, flat, added, out, seen, work, _lane(x, lanes), _lane(added, lanes), flat.shape[1]),
        *(leaves[op.weight].at, b_at, rows, h, w, c, ho, wo, o, op.size, op.stride, op.padding),
        **after,
        **_cut(tile, precision),
    )
    if tile.splits > 1:
        bm, bn = 16, min(64, tile.n)
        programs(products.sum_forward, (-(-rows // bm) * -(-o // bn), 1, lanes))(
            *(flat, added, out, seen, work, _lane(added, lanes), flat.shape[1], b_at, rows, ho, wo, o),
            **after,
            SPLITS=tile.splits,
            BM=bm,
            BN=bn,
            num_warps=4,
        )
    return out, which


Make = Callable[["Target"], Tensor]


class Target:
    """Where a gradient goes: raw, at an operation's output, or on through its pooling and ReLU to its product."""

    def __init__(self, op: Op, x: Tensor, which: Tensor | None, other: Tensor | None, last: bool, scale: float) -> None:
        """x: what the operation put out, after dropout; other: what is to be added; last: nothing else will be."""
        lanes, batch = x.shape[:2]
        pc, ph, pw = op.outside
        self.mask, self.unpool = last and op.relu, last and op.pool
        self.flat = last and op.flat and op.shape[1:] != (1, 1)
        odd = self.unpool and (ph % 2 or pw % 2)
        through = self.unpool or self.flat
        make = torch.zeros if odd else torch.empty
        shape = (lanes, batch, ph, pw, pc) if through else tuple(x.shape)
        self.out = make(shape, dtype=x.dtype, device=x.device)
        self.x, self.other, self.which, self.scale = x, other, which, scale
        self.sizes = {"PC": pc, "PH": ph, "PW": pw}

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """x, other, which, out; a tensor that is not read is any."""
        spare = self.out
        which = spare if self.which is None else self.which
        return self.x, spare if self.other is None else self.other, which, spare

    def flags(self) -> dict[str, int | bool]:
        """The kernels' constants."""
        what = {"MASK": self.mask, "ADD": self.other is not None, "UNPOOL": self.unpool, "FLAT": self.flat}
        return {**what, **self.sizes}


def to_input(
    op: Op,
    leaves: dict[str, Leaf],
    d: Tensor,
    operands: Tensor,
    target: Target,
    precision: str,
    tile: Tile | None = None,
) -> Tensor:
    """The gradient at op's input, from the one at its product."""
    lanes, batch = d.shape[:2]
    (c, h, w), (o, ho, wo) = op.inside, op.outside
    s = op.stride
    rows = batch * -(-h // s) * -(-w // s)
    depth = o * op.size**2 // (s * s)
    tile = tile or tiles.to_input(rows, c, o, depth, lanes * s * s, precision, target.unpool)
    if s > 1:
        tile = tile._replace(splits=1)
    kind = torch.float64 if d.dtype == torch.float64 else torch.float32
    work = torch.empty((tile.splits, lanes, rows, c), dtype=kind, device=d.device) if tile.splits > 1 else target.out
    x, other, which, out = target.tensors()
    programs(products.to_input, (-(-rows // tile.m) * -(-c // tile.n) * s * s, tile.splits, lanes))(
        *(d, operands, x, other, which, out, work, operands.shape[1], leaves[op.weight].at, rows, target.scale),
        *(h, w, c, ho, wo, o, op.size, s, op.padding),
        **target.flags(),
        **_cut(tile, precision),
    )
    return _summed(target, work, op.inside, batch, tile.splits) if tile.splits > 1 else out


def _summed(
    target: Target, work: Tensor, image: tuple[int, int, int], batch: int, splits: int, mean: bool = False
) -> Tensor:
    x, other, which, out = target.tensors()
    c, h, w = image
    rows, bm, bn = batch * h * w, 16, min(64, max(16, 1 << (c - 1).bit_length()))
    programs(products.sum_input, (-(-rows // bm) * -(-c // bn), 1, len(out)))(
        *(x, other, which, out, work, rows, target.scale, h, w, c),
        **target.flags(),
        AVERAGE=mean,
        SPLITS=splits,
        BM=bm,
        BN=bn,
        num_warps=4,
    )
    return out


def passed(target: Target, d: Tensor, image: tuple[int, int, int]) -> Tensor:
    """A gradient [L, b, H, W, C] that is there already, added to the target's."""
    return _summed(target, d, image, d.shape[1], 1)


def spread(target: Target, d: Tensor, image: tuple[int, int, int]) -> Tensor:
    """The gradient at an image's mean [L, b, C], spread over its pixels."""
    return _summed(target, d, image, d.shape[1], 1, mean=True)


def weight_tile(op: Op, batch: int, lanes: int, precision: str) -> Tile:
    """How the weight's gradient is cut."""
    rows = batch * prod(op.outside[1:])
    return tiles.to_weights(op.outside[0], op.depth, op.inside[0], rows, lanes, precision)


def weight_programs(op: Op, tile: Tile) -> int:
    """Programs a lane and split: tiles of the weight, then of the bias."""
    down = -(-op.outside[0] // tile.m)
    return down * -(-op.depth // tile.n) + (down if op.bias else 0)


def weight_part(op: Op) -> tuple[int, int]:
    """(numbers in one split's part of the gradient, where the bias is in it)."""
    weight = -(-op.outside[0] * op.depth // ALIGN) * ALIGN
    return weight + -(-op.outside[0] // ALIGN) * ALIGN, weight


def to_weights(
    op: Op,
    leaves: dict[str, Leaf],
    d: Tensor,
    x: Tensor,
    g: Tensor,
    squares: Tensor,
    slot: int,
    work: Tensor,
    precision: str,
    tile: Tile,
) -> None:
    """The gradients of op's parameters into g [L, P], or parts of them into work."""
    lanes, batch = d.shape[:2]
    (c, h, w), (o, ho, wo) = op.inside, op.outside
    programs(products.to_weights, (weight_programs(op, tile), tile.splits, lanes))(
        *(d, x, g, squares, work, _lane(x, lanes), g.shape[1], leaves[op.weight].at),
        *(leaves[op.bias].at if op.bias else 0, *weight_part(op), squares.shape[1], slot, batch * ho * wo),
        *(h, w, c, ho, wo, o, op.size, op.stride, op.padding),
        **_cut(tile, precision),
    )


def dropout(op: Op, x: Tensor, key: Tensor) -> Tensor:
    """x [L, b, ...] or a gradient, with op's draws."""
    lanes = len(key)
    out = torch.empty((lanes, *x.shape[1:]), dtype=x.dtype, device=x.device)
    count, (c, h, w) = prod(x.shape[1:]), op.inside
    programs(small.dropout, (-(-count // 1024), lanes))(
        *(x, out, key, count, _lane(x, lanes), op.p, *op.words, c, h, w), FLAT=op.flat, BLOCK=1024
    )
    return out


def average(op: Op, x: Tensor, lanes: int) -> Tensor:
    """The mean over pixels: [L, b, 1, 1, C]."""
    c, h, w = op.inside
    batch = x.shape[1]
    out = torch.empty((lanes, batch, 1, 1, c), dtype=x.dtype, device=x.device)
    programs(small.mean, (batch, -(-c // 64), lanes))(x, out, _lane(x, lanes), batch, c, h * w, BC=64, BP=16)
    return out
