"""A list of layers as a list of operations, each one kernel forward: product, shortcut, ReLU and pooling are one."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from math import prod

from baton.nn.graph import SAMPLES, Layer

ALIGN = 16  # numbers; leaves start at multiples of it, so that they can be read 16 bytes at a time


@dataclass(frozen=True)
class Op:
    """One operation. `source` and `residual` are places of earlier operations, or SAMPLES."""

    kind: str  # product dropout average
    source: int
    inside: tuple[int, int, int]  # C, H, W of what it reads; a linear layer reads an image of one pixel
    outside: tuple[int, int, int]  # of the product, before pooling
    size: int = 1  # of the window, both ways
    stride: int = 1
    padding: int = 0
    weight: str = ""
    bias: str = ""
    residual: int | None = None  # added to the product
    relu: bool = False
    pool: bool = False
    flat: bool = False  # put out as C, H, W, for a linear layer; otherwise as H, W, C
    p: float = 0.0  # dropout
    words: tuple[int, int] = (0, 0)  # dropout: the layer, and how often it was used before

    @property
    def shape(self) -> tuple[int, int, int]:
        """C, H, W of what it puts out."""
        c, h, w = self.outside
        return (c, h // 2, w // 2) if self.pool else self.outside

    @property
    def depth(self) -> int:
        """Numbers that one output of the product sums up."""
        return self.inside[0] * self.size * self.size


@dataclass(frozen=True)
class Leaf:
    """Where one parameter lies in the arena."""

    at: int
    shape: tuple[int, ...]  # torch's

    @property
    def numel(self) -> int:
        """Numbers in it."""
        return prod(self.shape)


@dataclass(frozen=True)
class Recipe:
    """A model for the kernels."""

    ops: tuple[Op, ...]  # the last one puts out the logits
    leaves: dict[str, Leaf]
    size: int  # numbers in one lane's arena
    whole: int  # from here on leaves are padded
    sample: tuple[int, ...]
    flat: bool  # samples are taken as C, H, W
    apart: tuple[int, int] = (0, 0)  # from where to where leaves are clipped by a norm of their own

    def is_apart(self, op: Op) -> bool:
        """Whether a product's leaves are."""
        return self.apart[0] <= self.leaves[op.weight].at < self.apart[1]


class _Unsupported(Exception):
    pass


def _need(condition: bool) -> None:
    if not condition:
        raise _Unsupported


def recipe(
    layers: list[Layer], sizes: dict[str, tuple[int, ...]], sample: tuple[int, ...], apart: Collection[str] = ()
) -> Recipe | None:
    """None where a layer has no kernel, or stands where it cannot be joined to one.

    apart: leaves of whole layers that are clipped by a norm of their own.
    """
    if any(layer.bias and (layer.bias in apart) != (layer.weight in apart) for layer in layers):
        raise ValueError("apart: sums of squares are a layer's, so its weight and its bias go together")
    try:
        ops, flat = _operations(layers, sizes, sample)
        used = Counter(name for op in ops for name in (op.weight, op.bias) if name)
        _need(set(used) == set(sizes) and set(used.values()) == {1})
    except _Unsupported:
        return None
    leaves, size, whole = _arena(sizes, apart)
    return Recipe(tuple(ops), leaves, size, whole, sample, flat, _stretch([leaves[name] for name in apart]))


def _arena(sizes: dict[str, tuple[int, ...]], apart: Collection[str]) -> tuple[dict[str, Leaf], int, int]:
    """Leaves that need padding come last, so that one stretch holds all of it; those apart lie where the others meet.

    So they are one stretch too, whether they need padding or not.
    """

    def order(name: str) -> tuple[bool, bool]:
        padded = prod(sizes[name]) % ALIGN != 0
        return padded, (name in apart) != padded

    at, whole, places = 0, None, {}
    for name in sorted(sizes, key=order):
        padded = -(-prod(sizes[name]) // ALIGN) * ALIGN
        if whole is None and padded != prod(sizes[name]):
            whole = at
        places[name] = Leaf(at, sizes[name])
        at += padded
    size = -(-at // 128) * 128
    if whole is None and size != at:
        whole = at
    return {name: places[name] for name in sizes}, size, size if whole is None else whole


def _stretch(leaves: list[Leaf]) -> tuple[int, int]:
    """From where to where they lie, next to each other, the last one's padding among it."""
    ends = [leaf.at + -(-leaf.numel // ALIGN) * ALIGN for leaf in leaves]
    return min((leaf.at for leaf in leaves), default=0), max(ends, default=0)


def _image(shape: Iterable[int]) -> tuple[int, int, int]:
    """[C, H, W], and [n] as an image of one pixel."""
    found = tuple(shape)
    if len(found) == 1:
        return (found[0], 1, 1)
    _need(len(found) == 3)
    return (found[0], found[1], found[2])


class _Builder:
    def __init__(self, layers: list[Layer], sizes: dict[str, tuple[int, ...]], sample: tuple[int, ...]) -> None:
        self.layers, self.sizes, self.sample = layers, sizes, sample
        self.ops: list[Op] = []
        self.of: dict[int, int] = {SAMPLES: SAMPLES}  # layer -> the operation that puts it out
        self.uses = Counter(i for layer in layers for i in layer.inputs)
        self.drawn: Counter[int] = Counter()
        self.flat = False

    def shape(self, layer: int) -> tuple[int, ...]:
        return self.sample if layer == SAMPLES else self.layers[layer].shape

    def join(self, place: int, before: int, **changes: object) -> None:
        """Layer `place` becomes part of the operation that puts out layer `before`, which nothing else reads."""
        at = self.of[before]
        _need(at != SAMPLES and self.uses[before] == 1 and self.ops[at].kind == "product")
        self.ops[at] = replace(self.ops[at], **changes)  # type: ignore[arg-type]
        self.of[place] = at

    def same(self, place: int, before: int) -> None:
        """Layer `place` is what `before` is: who reads one reads the other."""
        self.of[place] = self.of[before]
        self.uses[place] += self.uses[before] - 1
        self.uses[before] = self.uses[place]

    def add(self, place: int, op: Op) -> None:
        self.ops.append(op)
        self.of[place] = len(self.ops) - 1


def _operations(
    layers: list[Layer], sizes: dict[str, tuple[int, ...]], sample: tuple[int, ...]
) -> tuple[list[Op], bool]:
    made = _Builder(layers, sizes, sample)
    for place, layer in enumerate(layers):
        _need(len(layer.inputs) == (2 if layer.kind == "add" else 1))
        rule = _RULES.get(layer.kind)
        _need(rule is not None)
        rule(made, place, layer)  # type: ignore[misc]
    last = made.ops[-1] if made.ops else None
    _need(last is not None and made.of[len(layers) - 1] == len(made.ops) - 1)
    assert last is not None
    plain = not (last.relu or last.pool or last.flat) and last.residual is None
    _need(last.kind == "product" and plain and last.shape[1:] == (1, 1) and made.uses[len(layers) - 1] == 0)
    return made.ops, made.flat


def _conv(made: _Builder, place: int, layer: Layer) -> None:
    source, weight = made.of[layer.inputs[0]], made.sizes[layer.weight]
    _need(len(weight) == 4 and weight[2] == weight[3] and len(made.shape(layer.inputs[0])) == 3)
    if source != SAMPLES:
        _need(not made.ops[source].flat)
    made.add(
        place,
        Op(
            *("product", source, _image(made.shape(layer.inputs[0])), _image(layer.shape), weight[2]),
            *(layer.stride, layer.padding, layer.weight, layer.bias),
        ),
    )


def _linear(made: _Builder, place: int, layer: Layer) -> None:
    source, features = made.of[layer.inputs[0]], made.shape(layer.inputs[0])
    _need(len(features) == 1)
    made.add(
        place,
        Op("product", source, _image(features), _image(layer.shape), weight=layer.weight, bias=layer.bias),
    )


def _relu(made: _Builder, place: int, layer: Layer) -> None:
    before = layer.inputs[0]
    at = made.of[before]
    _need(at != SAMPLES)
    if made.ops[at].kind != "dropout":
        made.join(place, before, relu=True)
        return
    source = made.ops[at].source  # dropout keeps signs, so the ReLU may come first
    _need(source != SAMPLES and made.uses[before] == 1 and made.ops[source].kind == "product")
    _need(sum(op.source == source or op.residual == source for op in made.ops) == 1)
    made.ops[source] = replace(made.ops[source], relu=True)
    made.of[place] = at


def _pool(made: _Builder, place: int, layer: Layer) -> None:
    at = made.of[layer.inputs[0]]
    _need(at != SAMPLES and not made.ops[at].pool and not made.ops[at].flat)
    made.join(place, layer.inputs[0], pool=True)


def _add(made: _Builder, place: int, layer: Layer) -> None:
    first, second = sorted(layer.inputs, key=lambda i: made.of[i])
    at, other = made.of[second], made.of[first]
    _need(at != other and made.shape(first) == made.shape(second))
    mine = made.ops[at]
    _need(not (mine.relu or mine.pool or mine.flat) and mine.residual is None)
    _need(not made.flat if other == SAMPLES else not made.ops[other].flat)
    made.join(place, second, residual=other)


def _dropout(made: _Builder, place: int, layer: Layer) -> None:
    before = layer.inputs[0]
    at = made.of[before]
    if layer.p == 0.0:
        made.same(place, before)
        return
    _need(layer.p < 1.0 and (at == SAMPLES or made.ops[at].kind != "dropout"))
    shape = _image(made.shape(before))
    flat = (made.flat if at == SAMPLES else made.ops[at].flat) or shape[1:] == (1, 1)
    words = (layer.number, made.drawn[layer.number])
    made.drawn[layer.number] += 1
    made.add(place, Op("dropout", at, shape, shape, flat=flat, p=layer.p, words=words))


def _flatten(made: _Builder, place: int, layer: Layer) -> None:
    before = layer.inputs[0]
    at, shape = made.of[before], made.shape(before)
    if len(shape) == 1 or shape[1:] == (1, 1):
        made.same(place, before)
        return
    made.of[place] = at
    if at == SAMPLES:
        _need(all(other.kind == "flatten" for other in made.layers if SAMPLES in other.inputs))
        made.flat = True
        return
    _need(made.uses[before] == 1)
    chain = [at] if made.ops[at].kind == "product" else [at, made.ops[at].source]
    for i in chain:
        if i == SAMPLES:
            _need(made.uses[SAMPLES] == 1)
            made.flat = True
        else:
            _need(made.ops[i].kind in ("product", "dropout"))
            made.ops[i] = replace(made.ops[i], flat=True)
    inner = chain[-1]
    _need(sum(op.source == inner or op.residual == inner for op in made.ops) == len(chain) - 1)


def _average(made: _Builder, place: int, layer: Layer) -> None:
    source = made.of[layer.inputs[0]]
    _need(source == SAMPLES or not made.ops[source].flat)
    inside = _image(made.shape(layer.inputs[0]))
    made.add(place, Op("average", source, inside, (inside[0], 1, 1)))


_RULES = {
    "conv": _conv,
    "linear": _linear,
    "relu": _relu,
    "pool": _pool,
    "add": _add,
    "dropout": _dropout,
    "flatten": _flatten,
    "average": _average,
}
