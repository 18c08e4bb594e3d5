"""A model's training step over lanes, as kernels."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.lanes import Params
from baton.nn.cuda import launch, small
from baton.nn.cuda.early import programs
from baton.nn.cuda.recipe import Op, Recipe
from baton.nn.cuda.rule import Rule
from baton.nn.cuda.tiles import Tile
from baton.nn.graph import SAMPLES

BLOCK = 1024
OVERLAP = 24  # up to so many lanes the weights' gradients run beside those of the inputs


def _up(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _plain(x: Tensor, dtype: torch.dtype) -> Tensor:
    """As kernels address it; x itself where it is so already."""
    return x.to(dtype).contiguous()


class Squares(NamedTuple):
    """Sums of squares of a gradient's parts."""

    sums: Tensor  # [L, slots]
    apart: tuple[int, int] = (0, 0)  # from where to where they are of leaves with a norm of their own


class Kernels:
    """One arena [L, P] holds the parameters of all lanes; a second one, in bf16, what the products read.

    Arguments may be strided, and of any type that holds their numbers, but for what is written: `into`, velocities.
    """

    def __init__(self, recipe: Recipe, precision: str) -> None:
        """precision: bf16, tf32 or fp32, of the products' operands, sums in fp32; or fp64 for everything."""
        self.recipe, self.precision, self.size = recipe, precision, recipe.size
        self.sums = torch.float64 if precision == "fp64" else torch.float32  # and parameters
        self.dtype = torch.bfloat16 if precision == "bf16" else self.sums  # of what is stored between products
        self._uses = Counter(i for op in recipe.ops for i in (op.source, op.residual) if i is not None and i != SAMPLES)
        self._most = (2**31 - 1024) // max(prod(shape) for op in recipe.ops for shape in (op.inside, op.outside))
        self._constants: dict[object, Tensor] = {}
        self._side: torch.cuda.Stream | None = None

    # --- parameters

    def leaves(self, flat: Tensor) -> Params:
        """The arena's leaves as views [L, ...] with torch's shapes."""
        return {name: self._view(flat, name) for name in self.recipe.leaves}

    def _view(self, flat: Tensor, name: str) -> Tensor:
        leaf = self.recipe.leaves[name]
        part = flat[:, leaf.at : leaf.at + leaf.numel]
        if len(leaf.shape) != 4:
            return part.view(len(flat), *leaf.shape)
        o, i, h, w = leaf.shape
        return part.view(len(flat), o, h, w, i).permute(0, 1, 4, 2, 3)

    def flat(self, params: Params) -> Tensor:
        """The arena of params: itself where they are its leaves already, otherwise a copy."""
        first = next(iter(params.values()))
        lanes = len(first)
        base = self._base(params, lanes)
        if base is not None:
            return base
        flat = torch.zeros((lanes, self.size), dtype=self.sums, device=first.device)
        for name, view in self.leaves(flat).items():
            view.copy_(params[name])
        return flat

    def _base(self, params: Params, lanes: int) -> Tensor | None:
        name = next(iter(self.recipe.leaves))
        first = params[name]
        start = first.storage_offset() - self.recipe.leaves[name].at
        room = first.untyped_storage().nbytes() // first.element_size()
        if first.dtype != self.sums or start < 0 or start + lanes * self.size > room:
            return None
        base = first.as_strided((lanes, self.size), (self.size, 1), start)
        for name, view in self.leaves(base).items():
            mine = params[name]
            if (mine.data_ptr(), mine.stride(), mine.dtype) != (view.data_ptr(), view.stride(), view.dtype):
                return None
        return base

    def operands(self, flat: Tensor) -> Tensor:
        """The arena as the products read it."""
        return _plain(flat, self.dtype)

    # --- samples

    def channels_last(self, x: Tensor) -> Tensor:
        """Prepared samples [L, b, C, H, W] (or [L, b, n]) as the first layer reads them."""
        if x.dim() == 5 and not self.recipe.flat:
            x = x.permute(0, 1, 3, 4, 2)
        return x.to(self.dtype).contiguous()

    def images(
        self, pool: Tensor, places: Tensor, key: Tensor | None, scale: tuple[float, ...], shift: tuple[float, ...]
    ) -> Tensor:
        """places [L, b] of the stored bytes [N, C, H, W], normalised; key [L]: cropped and flipped by its draws."""
        c, h, w = self.recipe.sample
        lanes, batch = places.shape
        pool, places = pool.contiguous(), _plain(places, torch.int64)
        key = None if key is None else _plain(key, torch.int64)
        shape = (c, h, w) if self.recipe.flat else (h, w, c)
        out = torch.empty((lanes, batch, *shape), dtype=self.dtype, device=pool.device)
        block = min(1024, _up(h * w))
        programs(small.samples, (lanes * batch, -(-h * w // block)))(
            *(pool, places, places if key is None else key, self._constant(scale, pool), self._constant(shift, pool)),
            *(out, batch, c, h, w),
            AUGMENT=key is not None,
            PURPOSE=rng.AUGMENT,
            PAD=4,
            FLAT=self.recipe.flat,
            BC=_up(c),
            BLOCK=block,
        )
        return out

    def _constant(self, values: tuple[float, ...], like: Tensor) -> Tensor:
        """Copied to the device once, before anything is captured."""
        at = (values, like.device)
        if at not in self._constants:
            self._constants[at] = torch.tensor(values, dtype=self.sums, device=like.device)
        return self._constants[at]

    # --- forward

    def _forward(
        self, flat: Tensor, operands: Tensor, x: Tensor, key: Tensor | None, keep: bool
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """What each operation puts out, and where its pooling found it; key None: no dropout."""
        values: list[Tensor] = []
        places: list[Tensor | None] = []
        for i, op in enumerate(self.recipe.ops):
            source = x if op.source == SAMPLES else values[op.source]
            which = None
            if op.kind == "dropout":
                out = source if key is None else launch.dropout(op, source, key)
            elif op.kind == "average":
                out = launch.average(op, source, len(flat))
            else:
                residual = None if op.residual is None else x if op.residual == SAMPLES else values[op.residual]
                dtype = self.sums if i == len(self.recipe.ops) - 1 else self.dtype
                out, which = launch.forward(
                    op, self.recipe.leaves, source, operands, flat, residual, dtype, keep, self.precision
                )
            values.append(out)
            places.append(which)
        return values, places

    def logits(self, flat: Tensor, operands: Tensor, x: Tensor) -> Tensor:
        """[L, n, classes] without dropout; x [L, n, ...], or [1, n, ...] for all lanes."""
        flat, operands = _plain(flat, self.sums), _plain(operands, self.dtype)
        parts = [_plain(part, self.dtype) for part in torch.split(x, self._most, 1)]
        found = [self._forward(flat, operands, part, None, False)[0][-1].flatten(2) for part in parts]
        return found[0] if len(found) == 1 else torch.cat(found, 1)

    # --- backward

    def gradient(self, flat: Tensor, operands: Tensor, x: Tensor, y: Tensor, weight: Tensor, key: Tensor) -> Tensor:
        """Each lane's minibatch gradient [L, P]: x [L, b, ...], y, weight [L, b], key [L] for dropout."""
        return self._gradient(flat, operands, x, y, weight, key)[0]

    def _gradient(
        self, flat: Tensor, operands: Tensor, x: Tensor, y: Tensor, weight: Tensor, key: Tensor
    ) -> tuple[Tensor, Squares]:
        """(gradient [L, P], sums of squares of its parts)."""
        if x.shape[1] > self._most:
            raise ValueError(f"a batch of {x.shape[1]} is too large: offsets have 32 bits, which hold {self._most}")
        flat, operands, x = _plain(flat, self.sums), _plain(operands, self.dtype), _plain(x, self.dtype)
        y, weight, key = _plain(y, torch.int64), _plain(weight, self.sums), _plain(key, torch.int64)
        values, places = self._forward(flat, operands, x, key, True)
        backward = _Backward(self, flat, operands, x, key, values, places)
        with backward.beside():
            if self.recipe.whole < self.size:
                backward.g[:, self.recipe.whole :].zero_()
        backward.arrived[len(values) - 1] = self._loss(values[-1], y, weight)
        for i in reversed(range(len(values))):
            backward.through(i)
        return backward.end()

    def _loss(self, logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        lanes, batch = y.shape
        classes = logits.shape[-1]
        out = torch.empty(logits.shape, dtype=self.dtype, device=logits.device)
        rows = min(32, _up(batch))
        programs(small.loss_gradient, (-(-batch // rows), lanes))(
            *(logits, y, weight, out, batch, classes), BN=_up(classes), BB=rows, BLOCK=_up(batch)
        )
        return out

    # --- the step

    def sgd(
        self,
        flat: Tensor,
        g: Tensor,
        rule: Rule,
        into: tuple[Tensor, Tensor] | None = None,
        squares: Squares | None = None,
    ) -> tuple[Tensor, Tensor]:
        """(flat, operands) after one clipped step; squares: of g's parts, where they are known."""
        lanes, size = flat.shape
        flat, g, lr, clip, decay = (_plain(x, self.sums) for x in (flat, g, *rule[:3]))
        pull, anchor = (_plain(x, self.sums) for x in rule.pull or (lr, flat))  # a tensor that is not read is any
        shift = flat if rule.shift is None else _plain(rule.shift, self.sums)
        momentum, velocity = rule.momentum or (lr, flat)
        if (velocity.shape, velocity.dtype, velocity.is_contiguous()) != (flat.shape, self.sums, True):
            raise ValueError("momentum: velocities are written over, so they must be an arena")
        squares = squares or self._squares(g)
        copy = self.precision == "bf16"
        if into is None:
            new = torch.empty_like(flat)
            into = (new, torch.empty(flat.shape, dtype=torch.bfloat16, device=flat.device) if copy else new)
        if not all(x.is_contiguous() and x.shape == flat.shape for x in into) or into[1].dtype != self.dtype:
            raise ValueError("into: not what a step returns")
        if not copy and into[0].data_ptr() != into[1].data_ptr():
            raise ValueError("into: products read the arena itself, which must be given twice")
        (first, last), slots = self.recipe.apart, squares.sums.shape[1]
        programs(small.step, (-(-size // (2 * BLOCK)), lanes))(
            *(flat, g, squares.sums, lr, clip, decay, pull, anchor, shift, _plain(momentum, self.sums), velocity),
            *(*into, size, slots, lanes // len(anchor), lanes // len(shift)),
            PULL=rule.pull is not None,
            SHIFT=rule.shift is not None,
            MOMENTUM=rule.momentum is not None,
            COPY=copy,
            FIRST=first,
            LAST=last,
            FIRST_SLOT=squares.apart[0],
            LAST_SLOT=squares.apart[1],
            SLOTS=_up(slots),
            BLOCK=2 * BLOCK,
        )
        return into

    def _squares(self, g: Tensor) -> Squares:
        """Of blocks of g."""
        (lanes, size), (first, last) = g.shape, self.recipe.apart
        blocks, own = -(-size // (4 * BLOCK)), first < last
        sums = torch.empty((lanes, 2 * blocks if own else blocks), dtype=self.sums, device=g.device)
        programs(small.squares_of, (blocks, lanes))(g, sums, size, FIRST=first, LAST=last, BLOCK=4 * BLOCK)
        return Squares(sums, (0, blocks if own else 0))

    def direction(self, start: Tensor, end: Tensor, shift: Tensor | None, inverse: Tensor) -> Tensor:
        """(start - end) inverse - shift, [L, P]: over the shift, where it has a lane each; start may have fewer."""
        lanes, size = end.shape
        own = shift is not None and len(shift) == lanes
        out = shift if shift is not None and own else torch.empty_like(end)
        given, many = (end, 1) if shift is None else (shift, lanes // len(shift))
        programs(small.direction, (-(-size // (2 * BLOCK)), lanes))(
            *(start, end, given, _plain(inverse, self.sums), out, size, lanes // len(start), many),
            SHIFT=shift is not None,
            BLOCK=2 * BLOCK,
        )
        return out

    def step(
        self,
        flat: Tensor,
        operands: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        key: Tensor,
        rule: Rule,
        into: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """gradient and sgd in one, which spares reading the gradient for its norm; into may be (flat, operands)."""
        g, squares = self._gradient(flat, operands, x, y, weight, key)
        return self.sgd(flat, g, rule, into, squares)


class _Backward:
    """One backward pass: which gradients have arrived where."""

    def __init__(
        self,
        kernels: Kernels,
        flat: Tensor,
        operands: Tensor,
        x: Tensor,
        key: Tensor,
        values: list[Tensor],
        places: list[Tensor | None],
    ) -> None:
        self.kernels, self.ops, self.leaves = kernels, kernels.recipe.ops, kernels.recipe.leaves
        self.operands, self.x, self.key, self.values, self.places = operands, x, key, values, places
        self.lanes, self.batch = len(flat), x.shape[1]
        self.arrived: dict[int, Tensor] = {}  # at products: complete
        self.pending: dict[int, Tensor] = {}  # at outputs: so far
        self.left = dict(kernels._uses)
        self.alive: list[Tensor] = []  # what the side stream may still read
        self.tiles = {
            i: launch.weight_tile(op, self.batch, self.lanes, kernels.precision)
            for i, op in enumerate(self.ops)
            if op.kind == "product"
        }
        self.g = torch.empty_like(flat)
        self._lay_out()
        self.side = self._stream()

    def _lay_out(self) -> None:
        """Slots for sums of squares, room for split sums. As in the arena, those apart lie where the others meet."""
        slots, room, table = 0, 0, []
        self.slot: dict[int, int] = {}
        self.room: dict[int, int] = {}
        apart = {i for i in self.tiles if self.kernels.recipe.is_apart(self.ops[i])}
        first, rows = 0, 0  # slots before those apart; those apart in the table
        for i in sorted((i for i, tile in self.tiles.items() if tile.splits == 1), key=lambda i: i in apart):
            self.slot[i] = slots
            slots += launch.weight_programs(self.ops[i], self.tiles[i])
            first = first if i in apart else slots
        for i in sorted((i for i, tile in self.tiles.items() if tile.splits > 1), key=lambda i: i not in apart):
            op, tile = self.ops[i], self.tiles[i]
            self.room[i] = room
            weight = self.leaves[op.weight]
            stride, bias = launch.weight_part(op)
            parts = [(weight.at, weight.numel, room)]
            if op.bias:
                parts.append((self.leaves[op.bias].at, op.outside[0], room + bias))
            for at, count, where in parts:
                for b in range(0, count, BLOCK):
                    table.append((at + b, min(BLOCK, count - b), where + b, stride, tile.splits))
            room += tile.splits * self.lanes * stride
            rows = len(table) if i in apart else rows
        self.parts_slot = slots
        device = self.g.device
        sums = torch.empty((self.lanes, slots + len(table)), dtype=self.g.dtype, device=device)
        self.squares = Squares(sums, (first, slots + rows) if apart else (0, 0))
        self.work = torch.empty(room, dtype=self.g.dtype, device=device) if room else self.g
        constants, known = self.kernels._constants, ("table", self.lanes, self.batch, device)
        if known not in constants:  # copied to the device once, before anything is captured
            constants[known] = torch.tensor(table, dtype=torch.int64, device=device).view(-1, 5)
        self.table = constants[known]

    def _stream(self) -> torch.cuda.Stream | None:
        if not self.g.is_cuda or self.lanes > OVERLAP:
            return None
        if self.kernels._side is None:
            self.kernels._side = torch.cuda.Stream(self.g.device, priority=-1)  # type: ignore[no-untyped-call]
        return self.kernels._side

    @contextmanager
    def beside(self) -> Iterator[None]:
        """What is launched here runs beside the rest, after what was launched so far."""
        if self.side is None:
            yield
            return
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            yield

    def through(self, i: int) -> None:
        """Operation i, whose gradient has arrived, hands on to its inputs and parameters."""
        op, d = self.ops[i], self.arrived.pop(i, None)
        if d is None:
            return  # joined with what follows it, or at the samples
        if op.kind == "average":
            self._give(op.source, lambda target: launch.spread(target, d, op.inside))
            return
        if op.kind == "dropout":
            self._pass(op.source, launch.dropout(op, d, self.key))
            return
        with self.beside():
            self._weights(i, op, d, self.tiles[i])
        self.alive.append(d)
        if op.residual is not None:
            self._pass(op.residual, d)
        kernels = self.kernels
        self._give(
            op.source,
            lambda target: launch.to_input(op, self.leaves, d, self.operands, target, kernels.precision),
        )

    def _weights(self, i: int, op: Op, d: Tensor, tile: Tile) -> None:
        source = self.x if op.source == SAMPLES else self.values[op.source]
        work = self.work[self.room[i] :] if i in self.room else self.g
        launch.to_weights(
            *(op, self.leaves, d, source, self.g, self.squares.sums, self.slot.get(i, 0), work),
            *(self.kernels.precision, tile),
        )

    def _end_of(self, i: int) -> tuple[int, float]:
        """Where the gradient at output i ends up, and by what it is scaled: after a ReLU dropout is not drawn again."""
        op = self.ops[i]
        if op.kind == "dropout" and op.source != SAMPLES:
            before = self.ops[op.source]
            if before.kind == "product" and before.relu and self.kernels._uses[op.source] == 1:
                return op.source, 1.0 / (1.0 - op.p)
        return i, 1.0

    def _give(self, i: int, make: "launch.Make") -> None:
        """One more gradient at output i, made by a kernel that can add to what is there and go on to the product."""
        if i == SAMPLES:
            return
        self.left[i] -= 1
        last = self.left[i] == 0
        end, scale = self._end_of(i)
        op = self.ops[end]
        through = last and op.kind == "product"
        d = make(launch.Target(op, self.values[i], self.places[end], self.pending.pop(i, None), through, scale))
        if last:
            self.arrived[end] = d
        else:
            self.pending[i] = d
        self.alive.append(d)

    def _pass(self, i: int, d: Tensor) -> None:
        """One more gradient at output i, already there."""
        if i == SAMPLES:
            return
        op, last = self.ops[self._end_of(i)[0]], self.left[i] == 1
        plain = not last or not (op.kind == "product" and (op.relu or op.pool or op.flat))
        if i not in self.pending and plain:
            self.left[i] -= 1
            (self.arrived if last else self.pending)[i] = d
            return
        image = (self.values[i].shape[-1], *self.ops[i].shape[1:]) if not self.ops[i].flat else None
        if image is None:
            image = (prod(self.ops[i].shape), 1, 1)
        self._give(i, lambda target: launch.passed(target, d, image))

    def end(self) -> tuple[Tensor, Squares]:
        """(gradient, sums of squares of its parts), when all of it is there."""
        sums = self.squares.sums
        if len(self.table):
            with self.beside():
                programs(small.sum_parts, (len(self.table), self.lanes))(
                    *(self.g, self.work, self.table, sums, self.g.shape[1], sums.shape[1]),
                    *(self.parts_slot,),
                    BLOCK=BLOCK,
                    AT_ONCE=8,
                    num_warps=8,
                )
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)
        return self.g, self.squares
