"""Legs in C against an independent reference: torch's autograd in float64, step by step."""

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import processes
from baton.datasets import find
from baton.lanes import Params
from baton.models import cnn, lenet5, logistic, mlp, resnet18, vgg9
from baton.nn import KeyedDropout, graph, native
from baton.nn.native import Kernels, Pixels, build, structs
from baton.nn.swap import swap

compiler = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
pytestmark = pytest.mark.skipif(not compiler, reason="legs in C need a C compiler, and there is none here")

# Largest error of a step's change of the parameters, relative to the largest change. Float32 against float64: a few
# 1e-6 a layer; a sample whose unit sits on the edge of a ReLU or a pooling window may fall to the other side.
TOLERANCE = 1e-4

FOLDER = find.cache() / "native"  # what legs hand over

Terms = dict[str, Tensor | Params]  # momentum, pull, anchor, shift


class Case(NamedTuple):
    """A model and everything a leg of it takes."""

    module: nn.Module
    kernels: Kernels
    pixels: Pixels
    params: Params
    inputs: tuple[Tensor, ...]  # lr, clip, weight_decay, pool_x, pool_y, places, weight, key
    terms: Terms = {}  # never written to  # noqa: RUF012

    def steps(self, threads: int = 1) -> Params:
        return self.kernels.steps(self.params, *self.inputs, threads=threads, **self.terms)

    def lane(self, lane: int, threads: int = 1) -> Params:
        return self.part(slice(lane, lane + 1)).steps(threads)

    def part(self, some: slice, k: slice = slice(None)) -> "Case":
        """Some lanes and steps, where each lane has its own of everything."""
        lr, clip, decay, x, y, places, weight, key = self.inputs
        rest = (x, y, places[some, k], weight[some, k], key[some, k])
        terms: Terms = {
            name: _some(term, some) if isinstance(term, dict) else term[some] for name, term in self.terms.items()
        }
        return self._replace(
            params=_some(self.params, some), inputs=(lr[some], clip[some], decay[some], *rest), terms=terms
        )


def _some(params: Params, some: slice) -> Params:
    return {name: leaf[some] for name, leaf in params.items()}


def keyed(module: nn.Module) -> nn.Module:
    count = iter(range(9))
    swap(module, lambda m: KeyedDropout(m.p, next(count)) if isinstance(m, nn.Dropout) else None)
    return module


def compiled(module: nn.Module, shape: tuple[int, ...], pixels: Pixels | None = None) -> Kernels | None:
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    found = graph.layers(module, torch.zeros(1, *shape))
    return None if found is None else native.compile(found, sizes, shape, pixels, folder=FOLDER)


def case(
    module: nn.Module,
    shape: tuple[int, ...],
    classes: int = 10,
    lanes: int = 2,
    steps: int = 1,
    batch: int = 5,
    bytes: bool = True,
    seed: int = 0,
) -> Case:
    draw = torch.Generator().manual_seed(seed)
    keyed(module)
    planes = shape[0] if len(shape) == 3 else 1
    pixels = Pixels(tuple(0.01 + 0.001 * c for c in range(planes)), tuple(-1.2 + 0.1 * c for c in range(planes)))
    kernels = compiled(module, shape, pixels)
    assert kernels is not None
    count = 3 * batch + 2
    x = torch.randint(0, 256, (count, *shape), generator=draw, dtype=torch.uint8)
    y = torch.randint(0, classes, (count,), generator=draw)
    params = {
        name: torch.stack([p.detach() * (1 + 0.1 * lane) + 0.01 * lane for lane in range(lanes)])
        for name, p in module.named_parameters()
    }
    inputs = (
        torch.linspace(0.01, 0.03, lanes),
        torch.tensor([0.0, 0.5, 100.0, 2.0, 0.0])[:lanes],
        torch.linspace(0.0, 0.1, lanes),
        x if bytes else x / 255.0,
        y,
        torch.randint(0, count, (lanes, steps, batch), generator=draw),
        (torch.arange(batch) < max(1, batch - 2)).float().expand(lanes, steps, batch)
        if batch % 2
        else torch.ones(lanes, steps, batch),
        torch.randint(-(2**63), 2**63 - 1, (lanes, steps), generator=draw),
    )
    return Case(module, kernels, pixels, params, inputs)


def prepared(pool: Tensor, pixels: Pixels) -> Tensor:
    if pool.dtype != torch.uint8:
        return pool.double()
    shape = (-1, 1, 1) if pool.dim() == 4 else (1,)
    scale, shift = (torch.tensor(v, dtype=torch.float64).view(shape) for v in pixels)
    return pool.double() * scale + shift


def output(module: nn.Module, params: Params, x: Tensor, key: Tensor | None = None) -> Tensor:
    dropouts = {name: m for name, m in module.named_modules() if isinstance(m, KeyedDropout)}
    for layer in dropouts.values():
        layer.calls = 0
    keys = {} if key is None else {f"{name}.key": key for name in dropouts}
    found: Tensor = torch.func.functional_call(module.train(key is not None), {**params, **keys}, (x,))
    return found


def reference(case: Case, sides: Collection[Collection[str]] = ()) -> Params:
    """The definition, in float64: torch's own clipping and optimizer. sides: what is clipped together, if not all."""
    lr, clip, decay, x, y, places, weight, key = case.inputs
    module, pool = case.module.double(), prepared(x, case.pixels)
    lanes = []
    for lane in range(len(lr)):
        now = its_own(case.params, lane, len(lr))
        anchor = its_own(case.terms.get("anchor", case.params), lane, len(lr))
        shift = its_own(case.terms["shift"], lane, len(lr)) if "shift" in case.terms else None
        momentum, pull = (float(case.terms[n][lane]) if n in case.terms else 0.0 for n in ("momentum", "pull"))
        now = {name: leaf.requires_grad_() for name, leaf in now.items()}
        optimizer = torch.optim.SGD(now.values(), float(lr[lane]), momentum, weight_decay=float(decay[lane]))
        for k in range(places.shape[1]):
            at, w = places[lane, k], weight[lane, k].double()
            if not w.any():
                continue
            optimizer.zero_grad()
            each = nn.functional.cross_entropy(output(module, now, pool[at], key[lane, k]), y[at], reduction="none")
            ((each * w).sum() / w.sum()).backward()
            for side in (sides or [now]) if clip[lane] > 0 else ():
                nn.utils.clip_grad_norm_([now[name] for name in side], float(clip[lane]))
            for name, leaf in now.items():
                leaf.grad += pull * (leaf.detach() - anchor[name]) + (shift[name] if shift else 0.0)
            optimizer.step()
        lanes.append({name: leaf.detach() for name, leaf in now.items()})
    module.float()
    return {name: torch.stack([lane[name] for lane in lanes]) for name in case.params}


def its_own(params: Params, lane: int, lanes: int) -> Params:
    """What stands for a lane, in float64."""
    return {name: leaf[lane * len(leaf) // lanes].double() for name, leaf in params.items()}


def error(found: Params, right: Params, start: Params) -> float:
    """Largest error of the change, relative to the largest change; the worst lane."""
    assert all(torch.isfinite(leaf).all() for leaf in right.values())
    wrong = torch.stack([(found[n].double() - right[n]).flatten(1).abs().amax(1) for n in right]).amax(0)
    start = {n: leaf.double().repeat_interleave(len(right[n]) // len(leaf), 0) for n, leaf in start.items()}
    change = torch.stack([(right[n] - start[n]).flatten(1).abs().amax(1) for n in right]).amax(0)
    return float((wrong / change).max())


def same(a: Params, b: Params) -> bool:
    return all(torch.equal(a[name], b[name]) for name in b)


def strided(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Everything the named models do not do."""
    return nn.Sequential(
        *(nn.Dropout(0.2), nn.Conv2d(shape[0], 9, 3, stride=2, padding=1, bias=False), nn.Dropout(0.3), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(9, 20, 1), nn.MaxPool2d(2), nn.ReLU(), nn.ReLU(), nn.Flatten(), nn.Dropout(0.0)),
        *(nn.LazyLinear(21, bias=False), nn.Linear(21, classes)),
    )


def pool_first(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.MaxPool2d(2), nn.MaxPool2d(2), nn.Conv2d(shape[0], 5, 5, padding=2), nn.Flatten(), nn.ReLU()),
        *(nn.LazyLinear(13), nn.Dropout(1.0), nn.Linear(13, classes)),
    )


def wide(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Convolutions whose weights are taken in several panels, and samples in several blocks."""
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 40, 3), nn.ReLU(), nn.Conv2d(40, 36, 5, padding=1), nn.ReLU()),
        *(nn.Conv2d(36, 40, 3, padding=1), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(classes)),
    )


def without_linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 12, 3), nn.ReLU(), nn.Conv2d(12, classes, 3, padding=1), nn.MaxPool2d(2)),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.ReLU(), nn.Dropout(0.2)),
    )


def made(build: Callable[..., nn.Module], shape: tuple[int, ...], classes: int = 10) -> nn.Module:
    torch.manual_seed(1)
    module = build(shape, classes)
    module(torch.zeros(1, *shape))  # lazy layers find their sizes
    return module


MODELS = [
    *((build, (1, 28, 28)) for build in (logistic, mlp, lenet5, cnn)),
    *((build, (3, 32, 32)) for build in (logistic, lenet5, vgg9)),
    *((strided, (3, 13, 12)), (pool_first, (2, 11, 9)), (wide, (2, 23, 21)), (without_linear, (3, 6, 7))),
]


@pytest.mark.parametrize(("build", "shape"), MODELS)
def test_a_step_is_autograds(build: Callable[..., nn.Module], shape: tuple[int, ...]) -> None:
    """Clip, weight decay, padding and dropout are in every one of these: see `case`."""
    one = case(made(build, shape), shape)
    right = reference(one)
    for threads in (1, 4):
        assert error(one.steps(threads), right, one.params) < TOLERANCE


@pytest.mark.parametrize("build", [logistic, mlp, lenet5])
def test_several_steps_of_numbers(build: Callable[..., nn.Module]) -> None:
    one = case(made(build, (1, 28, 28)), (1, 28, 28), steps=3, lanes=3, bytes=False)
    assert error(one.steps(2), reference(one), one.params) < 3 * TOLERANCE


@pytest.mark.parametrize(("build", "shape"), MODELS)
def test_logits_are_the_modules(build: Callable[..., nn.Module], shape: tuple[int, ...]) -> None:
    one = case(made(build, shape), shape, batch=12)
    x = one.inputs[3]
    places = torch.randint(0, len(x), (2, 35), generator=torch.Generator().manual_seed(0))
    shared, own = (one.kernels.logits(one.params, x, at, threads=3) for at in (places[0], places))
    assert torch.equal(shared[0], own[0])
    for lane in range(2):
        params = {name: leaf[lane].double() for name, leaf in one.params.items()}
        right = output(one.module.double(), params, prepared(x, one.pixels)[places[lane]])
        assert (own[lane] - right).abs().max() < 1e-5 * right.abs().max()
    assert one.kernels.logits(one.params, x, places[:, :0], threads=2).shape == (2, 0, 10)


@st.composite
def chains(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...], int]:
    """A few layers of odd sizes, and the samples they take."""
    torch.manual_seed(draw(st.integers(0, 99)))
    shape = (draw(st.integers(1, 4)), draw(st.integers(7, 13)), draw(st.integers(7, 13)))
    classes = draw(st.integers(2, 37))
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.sampled_from((1, 3, 5)))
        out = draw(st.sampled_from((1, 6, 16, 17, 33)))
        stride, padding, bias = draw(st.integers(1, 2)), draw(st.integers(0, 2)), draw(st.booleans())
        layers.append(nn.LazyConv2d(out, size, stride, padding, bias=bias))
        after = st.sampled_from((nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.4)))
        layers += draw(st.lists(after, max_size=3, unique=True))
    layers += [nn.Flatten(), nn.LazyLinear(draw(st.integers(1, 40))), nn.ReLU()][: 3 * draw(st.integers(0, 1)) or 1]
    return nn.Sequential(*layers, nn.LazyLinear(classes)), shape, classes


@settings(max_examples=150)
@given(chains(), st.integers(1, 5), st.integers(1, 3), st.integers(1, 7), st.integers(1, 3))
def test_odd_chains(
    chain: tuple[nn.Module, tuple[int, ...], int], lanes: int, steps: int, batch: int, threads: int
) -> None:
    module, shape, classes = chain
    try:
        module(torch.zeros(1, *shape))
    except RuntimeError:
        return  # the images got smaller than a window
    one = case(module, shape, classes, lanes, steps, batch)
    found = one.steps(threads)
    assert error(found, reference(one), one.params) < 3 * TOLERANCE
    for lane in range(lanes):
        assert same({name: leaf[lane : lane + 1] for name, leaf in found.items()}, one.lane(lane))


@pytest.mark.parametrize("build", [mlp, cnn])
def test_a_lane_is_the_same_alone_and_among_others(build: Callable[..., nn.Module]) -> None:
    """To the bit where the batch is not split; up to rounding where it is."""
    one = case(made(build, (1, 28, 28)), (1, 28, 28), lanes=5, steps=2, batch=8)
    before = {name: leaf.clone() for name, leaf in one.params.items()}
    alone = one.steps()
    assert same(alone, one.steps())
    assert same(one.params, before)
    split = one.steps(2)  # the fifth lane has both threads
    assert same(split, one.steps(2))
    for lane in range(5):
        mine = {name: leaf[lane : lane + 1] for name, leaf in alone.items()}
        assert same(mine, one.lane(lane))
        if lane < 4:
            assert same(mine, {name: leaf[lane : lane + 1] for name, leaf in split.items()})
    start = {name: leaf.double() for name, leaf in one.params.items()}
    assert error(split, {name: leaf.double() for name, leaf in alone.items()}, start) < TOLERANCE


# The terms of a step


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are started, and lanes that are left over split, also where that does not pay."""
    monkeypatch.setattr(native, "SPLIT", 0)
    monkeypatch.setattr(native, "ALONE", 0)


TERMS = {
    "plain": (),
    "ragged": ("ragged",),
    "momentum": ("momentum",),
    "pull": ("pull",),
    "pull to an anchor": ("pull", "anchor"),
    "shift": ("shift",),
    "all": ("ragged", "momentum", "pull", "anchor", "shift"),
}


def with_terms(one: Case, names: Collection[str], starts: int = 0, anchors: int = 0, shifts: int = 0) -> Case:
    """one with these terms; starts, anchors, shifts: how many lanes x, anchor and shift have, if not one for each leg.

    ragged: legs of one step, of two, ..., or of all.
    """
    lr, clip, decay, x, y, places, weight, key = one.inputs
    legs, steps, _ = places.shape
    draw = torch.Generator().manual_seed(7)

    def near(lanes: int) -> Params:
        return {n: 0.1 * torch.randn(lanes, *leaf.shape[1:], generator=draw) for n, leaf in one.params.items()}

    terms: Terms = {
        "momentum": torch.tensor([0.9, 0.0, 0.5, 0.99, 0.7])[:legs],
        "pull": torch.tensor([0.3, 2.0, 0.0, 5.0, 1.0])[:legs],
        "anchor": near(anchors or legs),
        "shift": near(shifts or legs),
    }
    if "ragged" in names:
        weight = weight * (torch.arange(steps).view(1, -1, 1) <= torch.arange(legs).view(-1, 1, 1))
    return one._replace(
        params={n: leaf[: starts or legs] for n, leaf in one.params.items()},
        inputs=(lr, clip, decay, x, y, places, weight, key),
        terms={name: term for name, term in terms.items() if name in names},
    )


@pytest.mark.usefixtures("teams")
@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize(("build", "shape"), [(mlp, (1, 28, 28)), (lenet5, (3, 32, 32)), (strided, (3, 13, 12))])
def test_terms_are_torchs(build: Callable[..., nn.Module], shape: tuple[int, ...], terms: tuple[str, ...]) -> None:
    """Four legs on one thread, on two, with the fourth between three, and with two for each."""
    one = case(made(build, shape), shape, lanes=4, steps=3)
    for few in ({}, {"starts": 2, "anchors": 1, "shifts": 1}, {"starts": 1, "anchors": 4, "shifts": 2}):
        legs = with_terms(one, terms, **few)
        right = reference(legs)
        for threads in (1, 2, 3, 8):
            assert error(legs.steps(threads), right, legs.params) < 3 * TOLERANCE, (few, threads)


@pytest.mark.parametrize("build", [mlp, cnn])
def test_with_all_terms_a_lane_is_the_same_alone_and_among_others(build: Callable[..., nn.Module]) -> None:
    one = with_terms(case(made(build, (1, 28, 28)), (1, 28, 28), lanes=3, steps=3, batch=4), TERMS["all"])
    shift, anchor = one.terms["shift"], one.terms["anchor"]
    assert isinstance(shift, dict)
    assert isinstance(anchor, dict)
    for name in shift:
        shift[name][1], anchor[name][1] = float("nan"), float("inf")  # the lane after it goes through the same memory
    found = one.steps()
    for lane in (0, 2):
        assert same(_some(found, slice(lane, lane + 1)), one.lane(lane))
        assert all(torch.isfinite(leaf[lane]).all() for leaf in found.values())
    assert all(torch.isnan(leaf[1]).all() for leaf in found.values())
    assert all(torch.isfinite(leaf).all() for leaf in one._replace(terms={}).steps().values())


@pytest.mark.usefixtures("teams")
def test_a_velocity_goes_on_from_call_to_call() -> None:
    """With an anchor that stays where the leg started."""
    one = with_terms(case(made(lenet5, (1, 28, 28)), (1, 28, 28), lanes=3, steps=5), ("momentum", "pull", "shift"))
    for threads in (1, 2):
        velocity = {n: torch.zeros_like(leaf) for n, leaf in one.params.items()}
        now = one.params
        for k in (slice(2), slice(2, 3), slice(3, 5)):
            part = one.part(slice(None), k)
            terms = part.terms | {"anchor": one.params, "velocity": velocity}
            now = part._replace(params=now, terms=terms).steps(threads)
        assert same(now, one.steps(threads))
        assert not any(torch.equal(leaf, torch.zeros_like(leaf)) for leaf in velocity.values())


@pytest.mark.usefixtures("teams")
@pytest.mark.parametrize("terms", [(), ("shift",), TERMS["all"]], ids=["no shift", "shift", "all"])
@pytest.mark.parametrize(("build", "shape"), [(mlp, (1, 28, 28)), (strided, (3, 13, 12))])
def test_a_leg_tells_its_direction(
    build: Callable[..., nn.Module], shape: tuple[int, ...], terms: tuple[str, ...]
) -> None:
    """(start - end) inverse - shift, also into the shift's own memory; on one thread, and with a leg between three."""
    one = case(made(build, shape), shape, lanes=4, steps=3)
    inverse = torch.tensor([2.0, 0.0, 30.0, 1.0])
    for starts, shifts in ((4, 4), (2, 1), (1, 2), (4, 1), (1, 4)):
        for threads in (1, 3):
            legs = with_terms(one, terms, starts=starts, shifts=shifts)
            wanted, shift = legs.steps(threads), legs.terms.get("shift")
            before = {n: leaf.clone() for n, leaf in shift.items()} if isinstance(shift, dict) else None
            for over in (False, True) if before and shifts == 4 else (False,):
                told = shift if over else {n: torch.full_like(leaf, torch.nan) for n, leaf in wanted.items()}
                assert isinstance(told, dict)
                found = legs._replace(terms=legs.terms | {"inverse": inverse, "direction": told}).steps(threads)
                assert same(found, wanted)  # to tell changes nothing
                if before and not over:
                    assert same(shift, before)
                for lane in range(4):
                    begin, mine = its_own(legs.params, lane, 4), its_own(before, lane, 4) if before else {}
                    for name, leaf in told.items():
                        moved, own = (begin[name] - found[name][lane]) * inverse[lane], mine.get(name, torch.zeros(1))
                        apart = (leaf[lane] - (moved - own)).abs().max()
                        assert apart <= 1e-6 * (moved.abs().max() + own.abs().max())


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_a_step_without_samples_is_not_taken(terms: tuple[str, ...]) -> None:
    """No decay, no pull, no momentum: to the bit."""
    one = with_terms(case(made(cnn, (1, 28, 28)), (1, 28, 28), steps=3), terms)
    lr, clip, decay, x, y, places, weight, key = one.inputs
    for live in (torch.tensor([1, 1, 0]), torch.tensor([0, 1, 0]), torch.tensor([0, 0, 0])):
        empty = one._replace(inputs=(lr, clip, decay, x, y, places, weight * live.view(1, -1, 1), key))
        (taken,) = torch.nonzero(live, as_tuple=True)
        fewer = (places[:, taken], weight[:, taken], key[:, taken])
        assert same(empty.steps(), one._replace(inputs=(lr, clip, decay, x, y, *fewer)).steps())
    assert same(empty.steps(), one.params)


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_a_leg_with_no_learning_rate_stays_as_it_is(terms: tuple[str, ...]) -> None:
    one = with_terms(case(made(cnn, (1, 28, 28)), (1, 28, 28)), terms)
    lr, *rest = one.inputs
    assert same(one._replace(inputs=(torch.zeros_like(lr), *rest)).steps(), one.params)


@pytest.mark.parametrize("build", [mlp, lenet5, cnn])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_so(build: Callable[..., nn.Module], value: float) -> None:
    one = case(made(build, (1, 28, 28)), (1, 28, 28), lanes=3, batch=4)
    name = next(iter(one.params))
    one.params[name].view(3, -1)[1, :] = value  # the lane after it goes through the same memory
    found = one.steps()
    assert all(torch.isfinite(leaf[[0, 2]]).all() for leaf in found.values())
    assert not any(torch.isfinite(leaf[1]).all() for leaf in found.values())
    assert same({n: leaf[2:] for n, leaf in found.items()}, one.lane(2))
    outputs = one.kernels.logits(one.params, one.inputs[3], torch.arange(4), 1)
    assert not torch.isfinite(outputs[1]).any()
    assert torch.isfinite(outputs[[0, 2]]).all()


def test_other_graphs_have_no_kernels() -> None:
    shape = (3, 8, 8)
    shared = nn.Linear(192, 192)
    assert compiled(resnet18(shape, 10), shape) is None
    assert compiled(nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), shape) is None
    assert compiled(nn.Sequential(nn.Flatten(), shared, shared), shape) is None
    assert compiled(nn.Sequential(nn.Linear(8, 5), nn.Flatten(), nn.Linear(120, 2)), shape) is None
    assert compiled(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), shape) is None
    unused = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    unused.register_parameter("other", nn.Parameter(torch.zeros(3)))
    assert compiled(unused, shape) is None


def test_wrong_tensors_are_refused() -> None:
    one = case(made(logistic, (1, 4, 4)), (1, 4, 4))
    lr, clip, decay, x, y, places, weight, key = one.inputs
    for wrong in (
        (lr[:1], clip, decay, x, y, places, weight, key),
        (lr, clip, decay, x.double(), y, places, weight, key),
        (lr, clip, decay, x[:, :, :3], y, places, weight, key),
        (lr, clip, decay, x, y[:-1], places, weight, key),
        (lr, clip, decay, x, y, places[..., :0], weight[..., :0], key),
    ):
        with pytest.raises(ValueError, match=r".+"):
            one.kernels.steps(one.params, *wrong, threads=1)
    for wrong in (
        (lr, clip, decay, x, y, places + 1000, weight, key),
        (lr, clip, decay, x, y - 11, places, weight, key),
    ):
        with pytest.raises(IndexError):
            one.kernels.steps(one.params, *wrong, threads=2)
    for name in ("momentum", "pull"):
        with pytest.raises(ValueError, match="shape"):
            one._replace(terms={name: lr[:1]}).steps()
    three = {name: leaf[[0, 0, 1]] for name, leaf in one.params.items()}
    rows = {name: leaf.transpose(-1, -2).contiguous().transpose(-1, -2) for name, leaf in one.params.items()}
    for terms, what in (
        ({"shift": three}, "3 lanes"),
        ({"pull": lr, "anchor": three}, "3 lanes"),
        ({"momentum": lr, "velocity": _some(one.params, slice(1))}, "2 lanes"),
        ({"momentum": lr, "velocity": rows}, "contiguous"),
        ({"inverse": lr, "direction": rows}, "contiguous"),
        ({"inverse": lr, "direction": _some(one.params, slice(1))}, "2 lanes"),
        ({"inverse": lr[:1], "direction": {n: leaf.clone() for n, leaf in one.params.items()}}, "shape"),
    ):
        with pytest.raises(ValueError, match=what):
            one._replace(terms=terms).steps()
    with pytest.raises(ValueError, match="weight"):
        one.kernels.logits({"a": lr}, x, places[0, 0], 1)
    with pytest.raises(ValueError, match="float32"):
        one.kernels.logits({name: leaf.double() for name, leaf in one.params.items()}, x, places[0, 0], 1)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_NATIVE", "0")
    assert compiled(made(logistic, (1, 4, 4)), (1, 4, 4)) is None


def test_nothing_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    assert compiled(made(logistic, (1, 4, 4)), (1, 4, 4)) is None
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiled(made(logistic, (1, 4, 4)), (1, 4, 4)) is None


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))
    for folder in (tmp_path / "file" / "native", None):
        assert build.library(folder) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_damaged_library_is_made_again(tmp_path: Path) -> None:
    """In processes of their own: a library that was loaded stays. Two at once, and then one after damage."""
    code = (
        "import sys; from pathlib import Path; from baton.nn.native import build; "
        "build.FLAGS = ('-O0', *build.FLAGS[1:]); assert build.library(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with processes.start(command) as one, processes.start(command) as two:
        assert [one.wait(), two.wait()] == [0, 0]
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    for damaged in (whole[:5000], b"", whole[:3000] + b"x" + whole[3001:]):
        kept.write_bytes(damaged)
        assert not build._whole(kept)
    assert subprocess.run(command, check=False).returncode == 0
    assert build._whole(kept)


# The structs of C and their mirrors


@pytest.mark.parametrize("mirror", structs.MIRRORS)
def test_a_wrong_mirror_is_noticed_when_the_library_is_loaded(
    mirror: type[ctypes.Structure], monkeypatch: pytest.MonkeyPatch
) -> None:
    *most, (last, _) = mirror._fields_
    half = ctypes.c_int32
    for fields in (most, [*mirror._fields_, ("another", half)], [*most, (last, half), ("rest", half)]):
        wrong = type(mirror.__name__, (ctypes.Structure,), {"_fields_": fields})
        monkeypatch.setattr(structs, "MIRRORS", tuple(wrong if m is mirror else m for m in structs.MIRRORS))
        build._library.cache_clear()
        with pytest.raises(TypeError, match=rf"^{mirror.__name__}: .* bytes"):
            build.library(FOLDER)
        monkeypatch.undo()
    assert build.library(FOLDER) is not None


@pytest.mark.parametrize("mirror", structs.MIRRORS)
def test_mirrors_have_the_fields_of_the_c_files(mirror: type[ctypes.Structure]) -> None:
    """All are eight bytes wide, so that two in the wrong order would have the same sizes and places."""
    text = re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in build.HERE.glob("*.[ch]")), flags=re.DOTALL)
    (body,) = re.findall(rf"typedef struct \{{([^}}]*)\}} {mirror.__name__};", text)
    names = [re.findall(r"\w+", part)[-1] for part in re.split("[,;]", body) if part.strip()]
    assert names == [field[0] for field in mirror._fields_]
