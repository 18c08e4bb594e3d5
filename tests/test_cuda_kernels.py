"""Kernels over lanes on a GPU against an independent reference: torch's autograd in float64, lane by lane.

Each case runs in a process of its own: cases compile side by side, and Triton decides on import whether it compiles or
interprets. Without a GPU, where Triton is installed, a few small ones are interpreted, and kernels are compiled for
Hopper without being run: `make kernels` does both.
"""

import copy
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import baton
from baton import datasets, rng
from baton.datasets.images import crop_and_flip
from baton.lanes import Params
from baton.models import MODELS
from baton.nn import KeyedDropout, cuda, graph
from baton.nn.swap import swap
from baton.simulate import arithmetic
from hopper import Made, hopper, launch_all

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PRECISIONS = ("fp64", "fp32", "tf32", "bf16")

# Of one leaf's gradient, relative, where all sums of the forward pass are exact: no ReLU, no pooling decides otherwise.
EXACT = {
    "fp64": 1e-13,
    "fp32": 1e-5,
    "tf32": 1e-2,
    "bf16": 1e-2,
}  # tf32 cuts off: 4e-4 a layer; bf16 rounds: 3e-3 in all
# The same with weights of any size: one unit that decides otherwise is worth 1e-3 of a leaf even in float32.
ROUNDED = {"fp64": 1e-10, "fp32": 1e-2, "tf32": 0.25, "bf16": 0.5}
COSINE = {"fp64": 1 - 1e-12, "fp32": 0.9999, "tf32": 0.9995, "bf16": 0.99}  # of the whole gradient with the reference's
LOGITS = {"fp64": 1e-13, "fp32": 1e-5, "tf32": 1e-2, "bf16": 2e-2}
STORED = {"fp64": 1e-13, "fp32": 1e-5, "tf32": 1e-5, "bf16": 0.04}  # a sample's largest error


# --- nets


class Shortcuts(nn.Module):
    """Samples and results that are read twice, strides, no bias here and there."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1, bias=False), nn.Conv2d(8, 8, 1)
        self.d, self.f = nn.Linear(8 * 4 * 3, 10), nn.Flatten()

    def forward(self, x: Tensor) -> Tensor:
        u = torch.relu(self.a(x))
        v = torch.relu(self.b(u) + u)
        return self.d(self.f(torch.relu(self.c(v) + v)))


def odd() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 20, 5, 1, 2), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(20, 32, 4, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        *(nn.Dropout(0.5), nn.Linear(32, 10)),
    )


def joined(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Convolution, ReLU and pooling are one kernel, and a linear layer with its dropout and ReLU two."""
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.Flatten()),
        *(nn.Linear(16, 6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, classes)),
    )


def dropped() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(2, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Flatten()),
        *(nn.Linear(96, 12), nn.Dropout(0.5), nn.Linear(12, 100)),
    )


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    **{name: (partial(MODELS[name], (3, 32, 32), 10), (3, 32, 32)) for name in ("resnet18", "vgg9")},
    **{name: (partial(MODELS[name], (1, 28, 28), 10), (1, 28, 28)) for name in ("cnn", "lenet5", "mlp", "logistic")},
    "small": (partial(MODELS["mlp"], (1, 3, 5), 4), (1, 3, 5)),
    "odd": (odd, (3, 15, 13)),
    "dropped": (dropped, (2, 9, 7)),
    "shortcuts": (Shortcuts, (3, 8, 6)),
}


def keyed(module: nn.Module) -> nn.Module:
    count = iter(range(9))
    swap(module, lambda m: KeyedDropout(m.p, next(count)) if isinstance(m, nn.Dropout) else None)
    return module.train()


def sparse(module: nn.Module) -> None:
    """Few weights of 1 and -1 an output: sums are small integers, the same at every precision. The last is full."""
    layers = [m for m in module.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    few = 1 if len(layers) > 12 else 2
    for layer in layers:
        rows = torch.zeros(layer.weight.shape).flatten(1)
        for _ in range(few):
            rows.scatter_(1, torch.randint(rows.shape[1], (len(rows), 1)), torch.randint(2, (len(rows), 1)) * 2.0 - 1)
        if layer is layers[-1]:
            rows = torch.randint(-16, 17, rows.shape) / 64
        layer.weight.data = rows.view(layer.weight.shape)
        if layer.bias is not None:
            layer.bias.data = torch.randint(-1, 2, layer.bias.shape).float()


class Setup:
    """Everything a step takes."""

    def __init__(
        self, net: str, precision: str, exact: bool, lanes: int = 3, batch: int = 7, apart: Collection[str] = ()
    ) -> None:
        torch.manual_seed(1)
        build, self.shape = NETS[net]
        self.net, self.precision, self.exact, self.lanes, self.batch = net, precision, exact, lanes, batch
        self.modules = [keyed(build()) for _ in range(lanes)]
        for module in self.modules:
            if exact:
                sparse(module)
            else:
                for p in module.parameters():
                    p.data += 0.02 * torch.randn_like(p) * (p.dim() == 1)  # biases start at zero
        self.module = self.modules[0]
        self.kernels = compiled(self.module, self.shape, precision, apart)
        names = [name for name, _ in self.module.named_parameters()]
        of = [dict(module.named_parameters()) for module in self.modules]
        self.params = {name: torch.stack([p[name].detach() for p in of]).to(DEVICE) for name in names}
        size = (lanes, batch, *self.shape)
        x = torch.randint(-2, 3, size).float() if exact else torch.randn(size)
        classes = next(reversed(self.params.values())).shape[1]
        self.x = self.kernels.channels_last(x.to(DEVICE))
        self.y = torch.randint(0, classes, (lanes, batch)).to(DEVICE)
        weight = (torch.rand(lanes, batch) > 0.3).float()
        weight[:, 0] = 1.0
        weight[1:][-1:] = 0.0  # a client that holds nothing
        self.weight = weight.to(DEVICE)
        self.key = torch.randint(-(2**62), 2**62, (lanes,)).to(DEVICE)
        self.lr = torch.linspace(0.05, 0.2, lanes).to(DEVICE)
        self.clip = torch.tensor(([0.01, 0.0, 1e9] * lanes)[:lanes]).to(DEVICE)
        self.decay = torch.linspace(0.0, 0.1, lanes).to(DEVICE)
        self.flat = self.kernels.flat(self.params)
        self.operands = self.kernels.operands(self.flat)

    def own(self) -> tuple[Tensor, Tensor]:
        """Arenas to write over."""
        flat = self.flat.clone()
        return flat, self.kernels.operands(flat)

    def gradient(self) -> Tensor:
        return self.kernels.gradient(self.flat, self.operands, self.x, self.y, self.weight, self.key)

    def step(self, into: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        flat, operands = into or (self.flat, self.operands)
        given = (self.x, self.y, self.weight, self.key, self.rule())
        return self.kernels.step(flat, operands, *given, into=into)

    def rule(self) -> cuda.Rule:
        return cuda.Rule(self.lr, self.clip, self.decay)

    def reference(self, lane: int) -> tuple[Params, Tensor]:
        """(gradient, logits without dropout) of one lane."""
        module = copy.deepcopy(self.modules[lane]).double().to(DEVICE)
        for m in module.modules():
            if isinstance(m, KeyedDropout):
                m.key, m.calls = self.key[lane], 0
        x = self.x[lane].double()
        x = x.view(self.batch, *self.shape) if self.kernels.recipe.flat else x.permute(0, 3, 1, 2)
        each = functional.cross_entropy(module(x), self.y[lane], reduction="none")
        weight = self.weight[lane].double()
        ((each * weight).sum() / weight.sum().clamp(min=1)).backward()
        found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
        with torch.no_grad():
            return found, module.eval()(x)


def compiled(module: nn.Module, shape: tuple[int, ...], precision: str, apart: Collection[str] = ()) -> "cuda.Kernels":
    layers = graph.layers(module, torch.zeros(1, *shape))
    assert layers is not None
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    made = cuda.compile(layers, sizes, shape, precision, apart)
    assert made is not None
    return made


# --- cases


def of_net(net: str, precision: str) -> None:
    """Gradients, then everything else that a step must keep to."""
    lanes, batch = (3, 7) if DEVICE.type == "cuda" else (2, 3)
    for exact in (True, False):
        agrees(Setup(net, precision, exact, lanes, batch))
    s = Setup(net, precision, False, lanes, batch)
    steps(s)
    strided(s)
    own_leaves(s)
    nan_stays_in_its_lane(s)
    if DEVICE.type == "cuda":
        replays(s)
        if precision == "bf16" and net not in ("resnet18", "vgg9"):  # which compile for long
            agrees(Setup(net, precision, True, 1, 1))


def relative(found: Tensor, wanted: Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm().clamp(min=1e-30))


def refused(call: Callable[[], object], reason: str) -> None:
    try:
        call()
    except ValueError as error:
        if reason in str(error):
            return
        raise
    raise AssertionError(f"not refused: {reason}")


def agrees(s: Setup) -> None:
    g = s.kernels.leaves(s.gradient())
    shared = s.kernels.logits(s.flat, s.operands, s.x[:1])
    own = s.kernels.logits(s.flat, s.operands, s.x)
    assert torch.equal(shared[0], own[0])
    most, where, product, mine, theirs = 0.0, "", 0.0, 0.0, 0.0
    for lane in range(s.lanes):
        wanted, logits = s.reference(lane)
        assert relative(own[lane], logits) < LOGITS[s.precision], f"logits {relative(own[lane], logits):.1e}"
        for name, leaf in wanted.items():
            error = relative(g[name][lane], leaf)
            most, where = max((most, where), (error, name))
            product += float((g[name][lane].double() * leaf).sum())
            mine, theirs = mine + float(g[name][lane].double().square().sum()), theirs + float(leaf.square().sum())
    cosine = product / max(mine * theirs, 1e-60) ** 0.5
    limit = EXACT[s.precision] if s.exact else ROUNDED[s.precision]
    what = f"{s.net} {s.precision}, {'exact' if s.exact else 'any'} weights, {s.lanes} x {s.batch}"
    print(f"{what}: worst leaf {most:.1e} ({where}), cosine {cosine:.6f}")
    assert most < limit, f"{where}: {most:.1e}"
    assert mine == theirs == 0.0 or cosine > COSINE[s.precision], f"cosine {cosine}"


def steps(s: Setup) -> None:
    """Clipping, decay, the copy for the products; the same bits again."""
    g = s.gradient()
    assert torch.equal(g, s.gradient())
    length = g.double().norm(dim=1)
    scale = torch.where(s.clip > 0, (s.clip / (length + 1e-6)).clamp(max=1), 1.0)
    change = s.lr.double()[:, None] * (g * scale[:, None] + s.decay.double()[:, None] * s.flat)
    new, operands = s.step()
    limit = 1e-6 * float(s.flat.norm() / change.norm().clamp(min=1e-30)) + 1e-5
    assert relative(s.flat.double() - new, change) < limit
    assert torch.equal(operands, new.bfloat16() if s.precision == "bf16" else new)
    apart = s.kernels.sgd(s.flat, g, s.rule())
    assert relative(apart[0] - s.flat, new - s.flat) < limit
    copied = s.kernels.flat({name: leaf.clone() for name, leaf in s.kernels.leaves(new).items()})
    assert torch.equal(copied, new), "padding must stay zero"
    again = s.step(s.own())
    assert torch.equal(again[0], new)
    assert torch.equal(again[1], operands)


def wide(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The same numbers, neither next to each other nor of the kernels' type."""
    return torch.stack([x.to(dtype), torch.full_like(x, 99, dtype=dtype)], -1)[..., 0]


def strided(s: Setup) -> None:
    new, operands = s.step()
    mine = copy.copy(s)
    mine.flat, mine.operands = wide(s.flat, torch.float64), wide(s.operands, torch.float32)
    mine.x, mine.y, mine.weight = wide(s.x, torch.float64), wide(s.y, torch.int32), wide(s.weight, torch.float64)
    mine.key = wide(s.key, torch.int64)
    mine.lr, mine.clip, mine.decay = (wide(v, torch.float64) for v in (s.lr, s.clip, s.decay))
    found = mine.step()
    assert torch.equal(found[0], new)
    assert torch.equal(found[1], operands)
    assert torch.equal(s.kernels.logits(mine.flat, mine.operands, mine.x), s.kernels.logits(s.flat, s.operands, s.x))
    assert torch.equal(s.kernels.operands(mine.flat), s.operands)
    refused(lambda: s.step((wide(s.flat, torch.float32), s.operands)), "into")


def own_leaves(s: Setup) -> None:
    leaves = s.kernels.leaves(s.flat)
    assert s.kernels.flat(leaves).data_ptr() == s.flat.data_ptr()
    copied = s.kernels.flat({name: leaf.clone() for name, leaf in leaves.items()})
    assert copied.data_ptr() != s.flat.data_ptr()
    assert torch.equal(copied, s.flat)
    other = {**leaves, next(iter(leaves)): next(iter(leaves.values())).clone()}
    assert s.kernels.flat(other).data_ptr() != s.flat.data_ptr()
    for name, leaf in s.params.items():
        assert torch.equal(leaves[name], leaf)


def nan_stays_in_its_lane(s: Setup) -> None:
    new, _ = s.step()
    bad = copy.copy(s)
    bad.x = s.x.clone()
    bad.x[0, 0].flatten()[1] = float("nan")
    found, _ = bad.step()
    assert found[0].isnan().any()
    assert torch.equal(found[1:], new[1:])
    assert s.kernels.logits(s.flat, s.operands, bad.x)[0, 0].isnan().any()


def replays(s: Setup) -> None:
    """Captured and replayed: the same bits, beside a second stream and without one."""
    for overlap in (0, s.lanes):
        from baton.nn.cuda import kernels

        kernels.OVERLAP = overlap
        own = s.own()
        s.step(own)
        wanted = s.step(own)[0].clone()
        torch.cuda.synchronize()
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            s.step(own)
        own[0].copy_(s.flat)
        own[1].copy_(s.operands)
        recorded.replay()
        recorded.replay()
        torch.cuda.synchronize()
        assert torch.equal(own[0], wanted)


def of_samples(net: str) -> None:
    """Stored bytes normalised, cropped and flipped as the plain path does."""
    c = NETS[net][1][0]
    scale, shift = tuple(1 / 64 + 0.001 * i for i in range(c)), tuple(-2 - 0.01 * i for i in range(c))
    columns = [torch.tensor(v, dtype=torch.float64, device=DEVICE).view(c, 1, 1) for v in (scale, shift)]
    for precision in PRECISIONS:
        s = Setup(net, precision, False, 3, 5)
        pool = torch.randint(0, 256, (40, *s.shape), dtype=torch.uint8).to(DEVICE)
        places = torch.randint(0, 40, (3, 2, 5)).to(DEVICE)[:, 1]  # strided, as one step of several is
        for key in (None, wide(s.key, torch.int64)):
            x = pool[places]
            if key is not None:
                x = torch.stack([crop_and_flip(x[i], rng.bits(key[i], rng.AUGMENT)) for i in range(3)])
            wanted = s.kernels.channels_last(x * columns[0] + columns[1])
            found = s.kernels.images(pool, places, key, scale, shift)
            assert (found.double() - wanted.double()).abs().max() <= STORED[precision]
            shared = s.kernels.images(pool, places[:1].to(torch.int32), None, scale, shift)
            assert key is not None or torch.equal(shared[0], found[0])


def of_limits() -> None:
    """Offsets inside a lane have 32 bits: more samples are taken in parts, or refused."""
    s = Setup("small", "fp32", False, 2, 7)
    whole = s.kernels.logits(s.flat, s.operands, s.x)
    assert s.kernels._most > 10**6
    s.kernels._most = 3
    parts = s.kernels.logits(s.flat, s.operands, s.x)
    assert relative(parts, whole) < (
        1e-6 if DEVICE.type == "cpu" else 1e-30
    )  # an interpreted product rounds by its rows
    refused(s.gradient, "32 bits")


def of_terms(precision: str) -> None:
    """What a step adds to the gradient, each alone and all together, against float64; arenas for one lane, two, all."""
    lanes = 4
    s = Setup("small", precision, False, lanes, 3)
    g = s.gradient()
    scale = torch.where(s.clip > 0, (s.clip / (g.double().norm(dim=1) + 1e-6)).clamp(max=1), 1.0)
    strength = torch.tensor([0.3, 2.0, 0.0, 1.0], device=DEVICE)
    momentum = torch.tensor([0.9, 0.0, 0.5, 0.99], device=DEVICE)

    def arena(count: int, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return s.kernels.flat({n: torch.randn(count, *leaf.shape[1:]).to(DEVICE) for n, leaf in s.params.items()})

    def wanted(anchor: Tensor | None, shift: Tensor | None, fast: bool) -> Tensor:
        """After three steps with one gradient."""
        w, v = s.flat.double(), torch.zeros_like(s.flat, dtype=torch.float64)
        for _ in range(3):
            d = g.double() * scale[:, None] + s.decay.double()[:, None] * w
            if anchor is not None:
                d += strength.double()[:, None] * (w - anchor.double().repeat_interleave(lanes // len(anchor), 0))
            if shift is not None:
                d += shift.double().repeat_interleave(lanes // len(shift), 0)
            v = momentum.double()[:, None] * v + d if fast else d
            w = w - s.lr.double()[:, None] * v
        return w

    for anchors, shifts, fast in (
        (0, 0, True),
        (1, 0, False),
        (4, 0, False),
        (0, 2, False),
        (2, 1, True),
        (4, 4, True),
    ):
        anchor = arena(anchors, 3) if anchors else None
        shift = arena(shifts, 4) if shifts else None
        kept = [None if x is None else x.clone() for x in (anchor, shift, s.flat)]
        velocity = torch.zeros_like(s.flat)
        rule = s.rule()._replace(
            pull=None if anchor is None else (wide(strength, torch.float64), wide(anchor, torch.float64)),
            shift=None if shift is None else wide(shift, torch.float64),
            momentum=(wide(momentum, torch.float64), velocity) if fast else None,
        )
        flat, into = s.flat, None
        for _ in range(3):
            flat, operands = into = s.kernels.sgd(flat, g, rule, into)
        assert relative(flat - s.flat, wanted(anchor, shift, fast) - s.flat) < 1e-5, (anchors, shifts, fast)
        assert torch.equal(operands, flat.bfloat16() if precision == "bf16" else flat)
        assert velocity.any() == fast
        for given, before in zip((anchor, shift, s.flat), kept, strict=True):
            assert given is None or torch.equal(given, before)
        padded = s.kernels.flat({name: leaf.clone() for name, leaf in s.kernels.leaves(flat).items()})
        assert torch.equal(padded, flat), "padding must stay zero"
    wrong = s.rule()._replace(momentum=(momentum, wide(velocity, torch.float32)))
    refused(lambda: s.kernels.sgd(s.flat, g, wrong), "velocities")


def of_sides(net: str, precision: str) -> None:
    """Leaves that are clipped by a norm of their own, those of any first layers, as torch clips them in float64.

    The second lane's clip lies between its two norms. Sums that are split have their squares elsewhere, and so have
    gradients whose squares are not known: all come to the same.
    """
    from baton.nn.cuda import launch
    from baton.nn.cuda.recipe import Op
    from baton.nn.cuda.tiles import Tile

    tile_of, lanes = launch.weight_tile, 4
    names = list(Setup(net, precision, False, lanes, 3).params)
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
    for count in range(1, len(layers)):
        apart = {name for name in names if name.rpartition(".")[0] in layers[:count]}
        for every in (0, 1, 2):  # no product's sums are split, all are, every second one's

            def tile(op: Op, *given: Any, every: int = every) -> Tile:
                split = every > 0 and layers.index(op.weight.rpartition(".")[0]) % every == 0
                return tile_of(op, *given)._replace(splits=2 if split else 1)

            launch.weight_tile = tile
            s = Setup(net, precision, False, lanes, 3, apart)
            gradient = s.gradient()
            g = s.kernels.leaves(gradient)
            parts = [[n for n in names if n in apart], [n for n in names if n not in apart]]
            long = [torch.stack([g[n].double().flatten(1).norm(dim=1) for n in part]).norm(dim=0) for part in parts]
            s.clip[1] = (long[0][1] + long[1][1]) / 2
            apart_too, mine = s.kernels.sgd(s.flat, gradient, s.rule())[0], s.step()[0]
            for lane in range(lanes):
                exact = (
                    s.reference(lane)[0] if precision == "fp64" else {n: leaf[lane].double() for n, leaf in g.items()}
                )
                for part in parts:
                    leaves = [nn.Parameter(s.params[n][lane].double()) for n in part]
                    for leaf, n in zip(leaves, part, strict=True):
                        leaf.grad = exact[n].clone()
                    if s.clip[lane] > 0:
                        nn.utils.clip_grad_norm_(leaves, float(s.clip[lane]))
                    torch.optim.SGD(leaves, float(s.lr[lane]), weight_decay=float(s.decay[lane])).step()
                    for found in (mine, apart_too):
                        new = s.kernels.leaves(found)
                        for leaf, n in zip(leaves, part, strict=True):
                            change = leaf.detach() - s.params[n][lane]
                            error = relative(new[n][lane].double() - s.params[n][lane], change)
                            times = float(s.params[n][lane].norm() / change.norm().clamp(min=1e-30))
                            limit = 1e-15 * times + 1e-9 if precision == "fp64" else 1e-6 * times + 1e-5
                            assert error < limit or not change.any(), (count, every, lane, n, error)
            padded = s.kernels.flat({name: leaf.clone() for name, leaf in s.kernels.leaves(mine).items()})
            assert torch.equal(padded, mine), "padding must stay zero"
    launch.weight_tile = tile_of


@contextmanager
def samples_made_up() -> Iterator[None]:
    """Where data sets are looked for, in full float32."""
    from made_data import write_cifar, write_idx

    with tempfile.TemporaryDirectory() as folder, arithmetic.arithmetic("fp32"):
        os.environ.update(BATON_DATA=f"{folder}/data", XDG_CACHE_HOME=f"{folder}/cache")
        write_idx(Path(folder) / "data" / "mnist", 60, 20)
        write_cifar(Path(folder) / "data", 12)
        yield


def of_split(dataset: str, model: str, dtype: str, limit: float, some: Collection[str] = (), head: str = "") -> None:
    """Steps in split form, as `choose` gives them on a GPU, against both sides in torch: at every cut, or at some."""
    from baton import legs
    from baton.legs.gpu import Cuda
    from baton.legs.split import SplitLegs
    from baton.nn.cut import cuts, sides
    from baton.seam import Split
    from baton.setting import Setting
    from baton.simulate.program import Program
    from steps import TERMS, cut_short, step_of, with_terms

    with samples_made_up():
        same = {"dataset": dataset, "model": model, "clients": 5, "participants": 2, "local_steps": 2, "batch_size": 3}
        knobs = [(1, 0.05, 0.0, 0.0), (2, 0.02, 0.5, 0.01), (3, 0.1, 0.05, 0.0)]
        lanes = [Setting(**same, dtype=dtype, seed=i, lr=lr, clip=clip, weight_decay=d) for i, lr, clip, d in knobs]
        program, data = Program(lanes, DEVICE, "fp32"), datasets.load(dataset, 5)
        net = copy.copy(program.net)
        net.device = torch.device("cuda")  # whose kernels are interpreted where there is none
        batches = program.ahead(0, program.order(0))[1]
        x = program.net.init(program.seeds)
        plain = step_of(program.lanes, batches)

        def change(new: Params, lane: int | None = None) -> Tensor:
            some = slice(None) if lane is None else slice(lane, lane + 1)
            return torch.cat([(new[name] - x[name])[some].flatten() for name in x])

        def of(form: Split, on: object) -> legs.Legs:
            cut = sides(program.net, form.cut, form.head)
            return legs.choose(on, data, program.clients, True, "fp32", 1, form, cut)  # type: ignore[arg-type]

        for cut in [cut.name for cut in cuts(program.net) if not some or cut.name in some]:
            ends = {}
            for clip in ("joint", "per_side"):
                form, both = Split(cut, clip=clip), sides(program.net, cut)
                mine = of(form, net)
                assert isinstance(mine, Cuda)
                theirs = SplitLegs(program.net, data, program.clients, form, both, program.legs)
                for terms in ((), TERMS[-1]) if clip == "per_side" else ((),):
                    step = with_terms(plain, x, terms)
                    drawn = cut_short(batches, step)
                    found, wanted = (way.train(x, step, drawn) for way in (mine, theirs))
                    error = relative(change(found), change(wanted))
                    print(f"split {dataset} {model} {cut} {clip} {' '.join(sorted(terms))}: {error:.1e} of its change")
                    assert error < (10 * limit if terms else limit)
                if DEVICE.type == "cuda":
                    replayed(partial(mine.train, x, step, drawn))
                ends[clip] = mine.train(x, plain, batches)
            assert relative(change(ends["joint"], 0), change(ends["per_side"], 0)) < limit, "nothing is clipped"
            assert relative(change(ends["joint"], 2), change(ends["per_side"], 2)) > 0.01, "both norms are the same"
        assert type(of(Split(cut, noise=0.1), net)) is SplitLegs
        if head:
            assert type(of(Split(cut, head=head), net)) is SplitLegs


def of_leg(dataset: str, model: str, limit: float) -> None:
    """A client's steps through Program: the kernels' way against the plain one."""
    from baton.legs import gpu as leg
    from baton.legs.plain import Plain
    from baton.setting import Setting
    from baton.simulate.program import Program
    from steps import TERMS, cut_short, step_of, with_terms

    with samples_made_up():
        knobs = [(1, 0.05, 0.0, 0.0), (2, 0.02, 0.5, 0.01), (3, 0.1, 10.0, 0.0)]
        same = {"dataset": dataset, "model": model, "clients": 5, "participants": 2, "local_steps": 5, "batch_size": 8}
        settings = [Setting(**same, seed=i, lr=lr, clip=clip, weight_decay=d) for i, lr, clip, d in knobs]
        program = Program(settings, DEVICE, "fp32")
        data = datasets.load(dataset, 5)
        mine = program.legs
        if DEVICE.type == "cpu":  # which has kernels of its own
            layers = program.net.layers()
            built = layers and leg.build(program.net, layers, data, program.clients, "fp32")
            assert built
            mine = built
        assert isinstance(mine, leg.Cuda)
        plain = Plain(program.net, data, program.clients)
        batches = program.ahead(0, program.order(0))[1]
        x = program.net.init(program.seeds)
        before = {name: leaf.clone() for name, leaf in x.items()}
        step = step_of(program.lanes, batches)
        found, wanted = mine.train(x, step, batches), plain.train(x, step, batches)
        assert all(torch.equal(x[name], before[name]) for name in x)

        def change(new: Params) -> Tensor:
            return torch.cat([(new[name] - x[name]).flatten() for name in x])

        error = relative(change(found), change(wanted))
        print(f"leg {dataset} {model}: {error:.1e} of its change")
        assert error < limit
        again = mine.train(found, step, batches)  # from the kernels' own leaves
        assert relative(change(again), change(plain.train(wanted, step, batches))) < 10 * limit
        whole, x = x, mine.kernels.leaves(mine.kernels.flat({name: leaf[:1] for name, leaf in x.items()}))
        for terms in TERMS if model != "vgg9" else TERMS[-1:]:  # all legs from one model, in the kernels' own leaves
            more = with_terms(step, x, terms, anchors=1)
            cut = cut_short(batches, more)
            found, wanted = mine.train(x, more, cut), plain.train(x, more, cut)
            error = relative(change(found), change(wanted))
            print(f"leg {dataset} {model} with {' '.join(sorted(terms))}: {error:.1e} of its change")
            assert error < 10 * limit
            assert all(torch.equal(x[name], before[name][:1]) for name in x)
        if DEVICE.type == "cuda":
            replayed(lambda: mine.train(x, more, cut))
        x = whole
        places = torch.arange(len(program.clients.test_x[0]), device=DEVICE)
        outputs = [way.outputs(wanted, program.clients.test_x[0], places) for way in (mine, plain)]
        assert relative(*outputs) < 1e-5


def of_hopper(precision: str, nets: Collection[str], lanes: Collection[int]) -> None:
    """Every kernel compiles for Hopper, fits, and waits as it must; with a norm of the first layer's own too."""
    with hopper() as made:
        for net in nets:
            build, shape = NETS[net]
            module = keyed(build())
            names = [name for name, _ in module.named_parameters()]
            first = [name for name in names if name.rpartition(".")[0] == names[0].rpartition(".")[0]]
            for apart in ((), first):
                for count in lanes:
                    launch_all(compiled(module, shape, precision, apart), count, 20)
    assert {"forward", "to_input", "to_weights", "step", "squares_of"} <= {kernel.name for kernel in made.values()}
    for kernel in made.values():
        kernel.check()
    print(f"{len(made)} kernels for Hopper")


def replayed(train: Callable[[], Params]) -> None:
    """A leg captured and replayed twice: the same bits, so nothing of it is left over from the leg before."""
    wanted = train()
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        found = train()
    for _ in range(2):
        recorded.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)


WIDE = ("resnet18", "vgg9", "cnn", "lenet5", "odd", "shortcuts", "dropped", "mlp", "logistic")
SMALL = "user_modules:photos:channels=2,side=8"
CASES: dict[str, Callable[[], None]] = {  # those that compile longest first
    "hopper bf16 large": partial(of_hopper, "bf16", ("resnet18", "vgg9"), (24,)),
    "leg cifar10 vgg9": partial(of_leg, "cifar10", "vgg9", 1e-3),
    **{f"{net} {precision}": partial(of_net, net, precision) for net in NETS for precision in PRECISIONS},
    "leg mnist lenet5": partial(of_leg, "mnist", "lenet5", 1e-4),
    "leg mnist logistic": partial(of_leg, "mnist", "logistic", 1e-4),
    "leg digits mlp": partial(of_leg, "digits", "mlp", 1e-4),
    "split cifar10 vgg9": partial(of_split, "cifar10", "vgg9", "float32", 1e-3, ("3",)),
    "split mnist lenet5": partial(of_split, "mnist", "lenet5", "float32", 1e-3),
    "split mnist lenet5 fp64": partial(of_split, "mnist", "lenet5", "float64", 1e-10),
    "split digits mlp": partial(of_split, "digits", "mlp", "float32", 1e-4, (), "4"),
    "split joined": partial(of_split, SMALL, "test_cuda_kernels:joined", "float64", 1e-10, ("0", "3", "6"), "8"),
    **{f"sides {net} {p}": partial(of_sides, net, p) for net in ("small", "dropped", "shortcuts") for p in PRECISIONS},
    "samples vgg9": partial(of_samples, "vgg9"),
    "samples dropped": partial(of_samples, "dropped"),
    "samples mlp": partial(of_samples, "mlp"),
    "terms fp64": partial(of_terms, "fp64"),
    "terms fp32": partial(of_terms, "fp32"),
    "terms bf16": partial(of_terms, "bf16"),
    "limits": of_limits,
    **{f"hopper {p}": partial(of_hopper, p, ("lenet5", "shortcuts", "dropped", "small"), (1, 24)) for p in PRECISIONS},
    **{f"hopper {p} every": partial(of_hopper, p, WIDE, (1, 24, 96)) for p in PRECISIONS},
}
INTERPRETED = [
    "split joined",
    "sides dropped fp64",
    "sides small fp32",
    "sides small fp64",
    "small fp32",
    "small fp64",
    "shortcuts fp64",
    "dropped fp64",
    "terms fp64",
    "shortcuts fp32",
    "dropped fp32",
    "samples dropped",
    "terms fp32",
    "limits",
]


def run(case: str) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(__file__).parent), str(Path(baton.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    how = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    if DEVICE.type == "cpu" and not case.startswith("hopper"):
        how["TRITON_INTERPRET"] = "1"
    return subprocess.run([sys.executable, __file__, case], env={**os.environ, **how}, capture_output=True, text=True)


def unable(case: str) -> str:
    """Why a case cannot be run here."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    if "digits" in case and find_spec("sklearn") is None:
        return "scikit-learn is not installed"
    if case.startswith("hopper"):
        return "a GPU is here, for which the other cases compile" if DEVICE.type == "cuda" else ""
    if DEVICE.type == "cuda":
        return ""
    if case not in INTERPRETED:
        return "no GPU here"
    numpy = tuple(int(part) for part in version("numpy").split(".")[:2])
    return "" if numpy < (2, 4) else "Triton's interpreter needs numpy < 2.4"


@pytest.fixture(scope="module")
def processes(request: pytest.FixtureRequest) -> Iterator[dict[str, "Future[subprocess.CompletedProcess[str]]"]]:
    """All cases that were asked for, as many at a time as there are cores."""
    asked = [item.callspec.params["case"] for item in request.session.items if "[case-" in item.nodeid]  # type: ignore[attr-defined]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {case: pool.submit(run, case) for case in asked if not unable(case)}


def param(case: str) -> Any:
    long = [pytest.mark.long] if case.endswith("every") else []
    return pytest.param(case, id=f"case-{case.replace(' ', '-')}", marks=long)


@pytest.mark.parametrize("case", [param(case) for case in CASES])
def test_case(case: str, processes: "dict[str, Future[subprocess.CompletedProcess[str]]]") -> None:
    if unable(case):
        pytest.skip(unable(case))
    done = processes[case].result()
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


# --- what needs neither a GPU nor Triton


def none(module: nn.Module, shape: tuple[int, ...]) -> bool:
    layers = graph.layers(module, torch.zeros(1, *shape))
    assert layers is not None, "known one by one"
    return cuda.compile(layers, {n: tuple(p.shape) for n, p in module.named_parameters()}, shape, "fp32") is None


def test_layers_that_cannot_be_joined_have_no_kernels() -> None:
    ending = (nn.Flatten(), nn.Linear(4 * 3 * 3, 10))
    assert none(nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(2, 4, 1), *ending), (2, 6, 6)), "pooled samples"
    assert none(nn.Sequential(nn.ReLU(), nn.Conv2d(2, 4, 1), *ending), (2, 3, 3)), "ReLU of samples"
    assert none(nn.Sequential(nn.Conv2d(2, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (2, 3, 3)), "ends in a mean"
    assert none(nn.Sequential(nn.Linear(5, 10), nn.ReLU()), (5,)), "ends in a ReLU"


def test_leaves_apart_are_one_stretch() -> None:
    """With those that need padding still last, and nothing else moved."""
    from baton.nn.cuda.recipe import ALIGN, recipe

    module = MODELS["lenet5"]((1, 28, 28), 10)
    layers = graph.layers(module, torch.zeros(1, 1, 28, 28))
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    assert layers is not None
    whole = recipe(layers, sizes, (1, 28, 28))
    assert whole is not None
    for apart in (
        {"0.0.weight", "0.0.bias"},
        {"0.0.weight", "0.0.bias", "0.3.weight", "0.3.bias"},
        {"6.weight", "6.bias"},
    ):
        made = recipe(layers, sizes, (1, 28, 28), apart)
        assert made is not None
        assert (made.size, made.whole, made.ops, list(made.leaves)) == (whole.size, whole.whole, whole.ops, list(sizes))
        ends = {name: leaf.at + -(-leaf.numel // ALIGN) * ALIGN for name, leaf in made.leaves.items()}
        assert {n for n, leaf in made.leaves.items() if made.apart[0] <= leaf.at and ends[n] <= made.apart[1]} == apart
        assert made.apart[1] - made.apart[0] == sum(ends[name] - made.leaves[name].at for name in apart)
        padded = {name for name, leaf in made.leaves.items() if leaf.numel % ALIGN}
        assert all((leaf.at >= made.whole) is (name in padded) for name, leaf in made.leaves.items())
    with pytest.raises(ValueError, match="its weight and its bias go together"):
        recipe(layers, sizes, (1, 28, 28), {"0.0.weight"})


def test_what_kernels_for_hopper_are_held_to() -> None:
    ptx = ".visible .entry step(\n\t.param .u64 .ptr .global .align 16 w\n)\n{{\n{}\tret;\n}}\n"
    wait, load, branch = "\tgriddepcontrol.wait;\n", "\tld.global.b32 %r1, [%rd1];\n", "\t@%p1 bra $L1;\n"
    kernel = Made("step", ptx.format(wait + branch + load), 1 << 10, True, True)
    kernel.check()
    kernel._replace(ptx=ptx.format(load), early=False).check()
    wrong = [kernel._replace(ptx=ptx.format(body)) for body in (load + wait, branch + wait, load, "")]
    for made in (*wrong, kernel._replace(shared=228 << 10), kernel._replace(machine=False)):
        with pytest.raises(AssertionError, match="step: "):
            made.check()


def test_tiles_are_those_that_were_fastest() -> None:
    from baton.nn.cuda.tiles import Tile, forward, to_input, to_weights

    assert forward(1280, 128, 128, 1152, 96, "bf16") == Tile(128, 128, 64, 4, 3)
    assert forward(320, 256, 256, 2304, 96, "bf16") == Tile(64, 128, 64, 4, 4)
    assert forward(320, 256, 256, 2304, 6, "bf16") == Tile(64, 64, 128, 4, 3)
    assert forward(320, 256, 256, 2304, 1, "bf16") == Tile(64, 64, 64, 4, 4, 6)
    assert forward(1280, 128, 64, 576, 1, "bf16") == Tile(64, 32, 64, 4, 4)
    assert to_input(1280, 64, 128, 1152, 96, "bf16", True) == Tile(64, 64, 128, 4, 3)
    assert to_weights(32, 27, 3, 20480, 6, "bf16") == Tile(32, 32, 128, 4, 3, 32)
    assert to_weights(256, 2304, 256, 320, 96, "bf16") == Tile(128, 128, 32, 4, 3)


if __name__ == "__main__":
    CASES[sys.argv[1]]()
