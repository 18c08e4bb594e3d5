"""Legs in C against an independent reference: torch's autograd in float64, step by step."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from baton.lanes import Params
from baton.models import cnn, lenet5, logistic, mlp, resnet18, vgg9
from baton.nn import KeyedDropout, graph, native
from baton.nn.native import Kernels, Pixels, build
from baton.nn.swap import swap

compiler = any(shutil.which(name) for name in ("cc", "gcc", "clang"))
pytestmark = pytest.mark.skipif(not compiler, reason="no C compiler here")

# Largest error of a step's change of the parameters, relative to the largest change. Float32 against float64: a few
# 1e-6 a layer; a sample whose unit sits on the edge of a ReLU or a pooling window may fall to the other side.
TOLERANCE = 1e-4


class Case(NamedTuple):
    """A model and everything a leg of it takes."""

    module: nn.Module
    kernels: Kernels
    pixels: Pixels
    params: Params
    inputs: tuple[Tensor, ...]  # lr, clip, weight_decay, pool_x, pool_y, places, weight, key

    def steps(self, threads: int = 1) -> Params:
        return self.kernels.steps(self.params, *self.inputs, threads=threads)

    def lane(self, lane: int, threads: int = 1) -> Params:
        lr, clip, decay, x, y, places, weight, key = self.inputs
        one = slice(lane, lane + 1)
        params = {name: leaf[one] for name, leaf in self.params.items()}
        rest = (lr[one], clip[one], decay[one], x, y, places[one], weight[one], key[one])
        return self.kernels.steps(params, *rest, threads=threads)


def keyed(module: nn.Module) -> nn.Module:
    count = iter(range(9))
    swap(module, lambda m: KeyedDropout(m.p, next(count)) if isinstance(m, nn.Dropout) else None)
    return module


def compiled(module: nn.Module, shape: tuple[int, ...], pixels: Pixels | None = None) -> Kernels | None:
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    found = graph.layers(module, torch.zeros(1, *shape))
    return None if found is None else native.compile(found, sizes, shape, pixels)


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


def reference(case: Case) -> Params:
    """The definition, in float64."""
    lr, clip, decay, x, y, places, weight, key = case.inputs
    module, pool = case.module.double(), prepared(x, case.pixels)
    lanes = []
    for lane in range(len(lr)):
        now = {name: leaf[lane].double().requires_grad_() for name, leaf in case.params.items()}
        for k in range(places.shape[1]):
            at, w = places[lane, k], weight[lane, k].double()
            each = nn.functional.cross_entropy(output(module, now, pool[at], key[lane, k]), y[at], reduction="none")
            g = torch.autograd.grad((each * w).sum() / w.sum().clamp(min=1), list(now.values()))
            norm = torch.stack([leaf.norm() for leaf in g]).norm()
            scale = min(1.0, (clip[lane].double() / (norm + 1e-6)).item()) if clip[lane] > 0 else 1.0
            now = {
                name: leaf.detach() - lr[lane].double() * (scale * step + decay[lane].double() * leaf.detach())
                for (name, leaf), step in zip(now.items(), g, strict=True)
            }
            now = {name: leaf.requires_grad_() for name, leaf in now.items()}
        lanes.append({name: leaf.detach() for name, leaf in now.items()})
    module.float()
    return {name: torch.stack([lane[name] for lane in lanes]) for name in case.params}


def error(found: Params, right: Params, start: Params) -> float:
    """Largest error of the change, relative to the largest change; the worst lane."""
    assert all(torch.isfinite(leaf).all() for leaf in right.values())
    wrong = torch.stack([(found[n].double() - right[n]).flatten(1).abs().amax(1) for n in right]).amax(0)
    change = torch.stack([(right[n] - start[n].double()).flatten(1).abs().amax(1) for n in right]).amax(0)
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


def test_a_client_without_samples_hands_the_model_on() -> None:
    one = case(made(cnn, (1, 28, 28)), (1, 28, 28))
    lr, *rest = one.inputs
    found = one._replace(inputs=(torch.zeros_like(lr), *rest)).steps()
    assert same(found, one.params)


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
    with pytest.raises(ValueError, match="weight"):
        one.kernels.logits({"a": lr}, x, places[0, 0], 1)
    with pytest.raises(ValueError, match="float32"):
        one.kernels.logits({name: leaf.double() for name, leaf in one.params.items()}, x, places[0, 0], 1)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_NATIVE", "0")
    assert compiled(made(logistic, (1, 4, 4)), (1, 4, 4)) is None


def test_nothing_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiled(made(logistic, (1, 4, 4)), (1, 4, 4)) is None
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compiled(made(logistic, (1, 4, 4)), (1, 4, 4)) is None


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))
    assert compiled(made(logistic, (1, 4, 4)), (1, 4, 4)) is not None


def test_a_damaged_library_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In processes of their own: a library that was loaded stays. Two at once, and then one after damage."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = "from baton.nn.native import build; build.FLAGS = ('-O0', *build.FLAGS[1:]); assert build.library()"
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    (kept,) = (tmp_path / "baton" / "native").iterdir()
    whole = kept.read_bytes()
    for damaged in (whole[:5000], b"", whole[:3000] + b"x" + whole[3001:]):
        kept.write_bytes(damaged)
        assert not build._whole(kept)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert build._whole(kept)
