"""Split legs in C: two chains of stages against the two sides in torch, and against the whole leg in C."""

import math
from collections.abc import Callable
from functools import cache

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from baton import datasets, legs
from baton.clients import Batches
from baton.lanes import Params
from baton.legs import compiled
from baton.legs.base import Step
from baton.legs.compiled import Native
from baton.legs.split import SplitLegs
from baton.models import lenet5, mlp
from baton.nn import graph, native
from baton.nn.cut import cuts, sides
from baton.nn.native import build
from baton.seam import Split
from baton.setting import Setting
from baton.simulate.engine import Program, advance, start
from contracts.examples import CPU
from steps import cut_short, step_of
from steps import with_terms as more
from test_legs import SHIFTS, far, lanes, plain, steps_of, told_rightly
from test_native import FOLDER, TERMS, TOLERANCE, case, chains, error, made, reference, same, strided, teams, with_terms

__all__ = ["teams"]  # a fixture

pytestmark = pytest.mark.skipif(
    build.library(FOLDER) is None, reason="legs in C need a C compiler, and there is none here"
)


@cache
def whole(model: str, **fixed: object) -> Program:
    """Three lanes that differ in learning rate, clip (one has none) and weight decay; two clients of short batches."""
    return Program(lanes(model, **({"local_steps": 3} | fixed)), CPU, threads=1)


def in_c_and_in_torch(program: Program, form: Split, threads: int = 1) -> tuple[Native, SplitLegs]:
    """The same world's legs in split form."""
    cut = sides(program.net, form.cut)
    data = datasets.load(program.setting.dataset, program.setting.clients)
    chosen = legs.choose(program.net, data, program.clients, True, "fp32", threads, form, cut)
    assert isinstance(chosen, Native)
    return chosen, SplitLegs(program.net, data, program.clients, form, cut, plain(program))


@pytest.mark.usefixtures("teams")
@pytest.mark.parametrize("clip", ["joint", "per_side"])
@pytest.mark.parametrize("model", ["mlp", "lenet5", "cnn"])
def test_at_every_cut_it_is_torchs(model: str, clip: str) -> None:
    """Two threads for three lanes: the third is split between them."""
    program = whole(model)
    x, drawn = program.net.init(program.seeds), program.ahead(0, program.order(0))
    step = step_of(program.lanes, drawn[0])
    alone = program.legs.train(x, step, drawn[0])
    for cut in cuts(program.net):
        in_c, in_torch = in_c_and_in_torch(program, Split(cut.name, clip=clip), threads=2)
        made, wanted = (way.train(x, step, drawn[0]) for way in (in_c, in_torch))
        assert list(made) == list(x)
        assert far(made, wanted, x) < 1e-4, cut
        clips, free = (
            far(*({n: leaf[lane : lane + 1] for n, leaf in params.items()} for params in (made, alone, x)))
            for lane in (1, 0)
        )
        assert free < 1e-4  # without a clip it is the whole leg
        assert (clips < 1e-4) is (clip == "joint")


@pytest.mark.parametrize("cut", ["3", "11", "21"])
def test_a_deep_model_with_crops_and_flips(cut: str) -> None:
    """VGG-9: image to image by Winograd's transforms on both sides, and a row of numbers at the last cut."""
    program = whole("vgg9", local_steps=1, batch_size=3)
    in_c, in_torch = in_c_and_in_torch(program, Split(cut), threads=2)
    x, leg = program.net.init(program.seeds), program.ahead(0, program.order(0))[0]
    step = step_of(program.lanes, leg)
    made, wanted = (way.train(x, step, leg) for way in (in_c, in_torch))
    assert far(made, wanted, x) < 3e-2  # as in test_legs.py
    assert far(made, program.legs.train(x, step, leg), x) < 1e-4


@pytest.mark.usefixtures("teams")
@pytest.mark.parametrize(("model", "cut"), [("mlp", "1"), ("lenet5", "0.0"), ("lenet5", "0.5"), ("cnn", "2")])
def test_lanes_over_threads(model: str, cut: str) -> None:
    """A lane is the same to the bit alone and among others, and up to rounding where its batch is split."""
    program = whole(model)
    x, leg = program.net.init(program.seeds), program.ahead(0, program.order(0))[0]
    step = step_of(program.lanes, leg)
    made = [in_c_and_in_torch(program, Split(cut), n)[0].train(x, step, leg) for n in (1, 2, 3, 7)]
    for other in made[1:]:
        assert far(other, made[0], x) < 1e-5
    assert all(torch.equal(made[2][n], made[0][n]) for n in x)  # a thread each
    for lane in range(3):
        own = {n: leaf[lane : lane + 1] for n, leaf in x.items()}
        one = Batches(*(field[lane : lane + 1] for field in leg))
        mine = Step(*(field[lane : lane + 1] for field in step[:3]))
        for threads in (1, 2, 9):  # of 7 samples
            alone = in_c_and_in_torch(program, Split(cut), threads)[0].train(own, mine, one)
            among = {n: leaf[lane : lane + 1] for n, leaf in made[0].items()}
            assert same(alone, among) if threads == 1 else far(alone, among, own) < 1e-5


# The terms of a step


@pytest.mark.usefixtures("teams")
@pytest.mark.parametrize("apart", [False, True], ids=["joint", "per side"])
@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
@pytest.mark.parametrize(
    ("build", "shape", "cut"), [(mlp, (1, 28, 28), 2), (lenet5, (3, 32, 32), 3), (strided, (3, 13, 12), 5)]
)
def test_terms_are_torchs_on_both_sides(
    build: Callable[..., nn.Module], shape: tuple[int, ...], cut: int, terms: tuple[str, ...], apart: bool
) -> None:
    """Four legs on one thread, and with the fourth between three."""
    whole = case(made(build, shape), shape, lanes=4, steps=3)
    layers = graph.layers(whole.module, torch.zeros(1, *shape))
    assert layers is not None
    sizes = {name: tuple(p.shape) for name, p in whole.module.named_parameters()}
    kernels = native.compile(layers, sizes, shape, whole.pixels, cut, apart, FOLDER)
    assert kernels is not None
    client = {name for layer in layers[:cut] for name in (layer.weight, layer.bias) if name}
    both = [client, sizes.keys() - client]
    assert all(both)
    one = with_terms(whole._replace(kernels=kernels), terms, starts=2, anchors=1, shifts=4)
    right = reference(one, both if apart else ())
    for threads in (1, 3):
        assert error(one.steps(threads), right, one.params) < 3 * TOLERANCE


@pytest.mark.parametrize("clip", ["joint", "per_side"])
@pytest.mark.parametrize(("model", "cut"), [("mlp", "1"), ("lenet5", "0.3")])
def test_with_all_terms_it_is_torchs(model: str, cut: str, clip: str) -> None:
    program = whole(model)
    x, leg = program.net.init(program.seeds), program.ahead(0, program.order(0))[0]
    step = more(step_of(program.lanes, leg), x, TERMS["all"], anchors=1)
    both = in_c_and_in_torch(program, Split(cut, clip=clip), threads=2)
    made, wanted = (way.train(x, step, cut_short(leg, step)) for way in both)
    assert far(made, wanted, x) < 1e-4


@pytest.mark.usefixtures("teams")
@SHIFTS
@pytest.mark.parametrize("clip", ["joint", "per_side"])
@pytest.mark.parametrize(("model", "cut"), [("mlp", "1"), ("lenet5", "0.3")])
def test_directions_of_both_sides(model: str, cut: str, clip: str, shifts: int) -> None:
    """In C as they are defined, and torch's; the third leg is split between two threads."""
    program = whole(model)
    in_c, in_torch = in_c_and_in_torch(program, Split(cut, clip=clip), threads=2)
    x, leg = program.net.init([1]), program.ahead(0, program.order(0))[0]
    for step in steps_of(program, leg, x, shifts):
        drawn = cut_short(leg, step)
        wanted = told_rightly(in_torch, x, step, drawn, 1e-6)
        told = told_rightly(in_c, x, step, drawn, 1e-6)
        for name, leaf in wanted.items():
            torch.testing.assert_close(told[name], leaf, rtol=0, atol=1e-3 * float(leaf.abs().max()))


@pytest.mark.parametrize("terms", [("momentum",), ("pull",), TERMS["all"]], ids="+".join)
@pytest.mark.parametrize("form", [None, Split("0.3")], ids=["whole", "split"])
def test_calls_for_some_steps_are_a_leg(
    form: Split | None, terms: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where samples are augmented: the anchor is where the leg began, and the velocity is kept. To the bit."""
    program = whole("lenet5", dataset="user_modules:photos:augment=true", local_steps=4)
    legs = program.legs if form is None else in_c_and_in_torch(program, form)[0]
    assert isinstance(legs, Native)
    assert legs.augment is not None
    x, leg = program.net.init([1]), program.ahead(0, program.order(0))[0]
    step = more(step_of(program.lanes, leg), x, terms, shifts=1)
    made = []
    for at_once in (1, 3, 4):
        monkeypatch.setattr(compiled, "AUGMENTED", at_once * leg.places[:, 0].numel())
        made.append(legs.train(x, step, cut_short(leg, step)))
    assert same(made[0], made[2])
    assert same(made[1], made[2])
    if form is None:
        start = {n: leaf.repeat_interleave(3, 0) for n, leaf in x.items()}
        assert far(made[0], plain(program).train(x, step, cut_short(leg, step)), start) < 1e-3


# Short batches, no batches, no samples


def small_clients(algorithm: str) -> Program:
    """Lanes whose clients hold 0, 1, 2 ... samples."""
    common = {
        "model": "mlp:hidden=6",
        "clients": 200,
        "participants": 40,
        "partition": "dirichlet:alpha=0.1,min_samples=0",
    }
    rows = [(0.1, 0.0, 0.5, 1), (0.05, 0.3, 0.5, 2)]  # lr, clip, weight decay, seed
    fixed = {"local_steps": 5, "batch_size": 2, "algorithm": algorithm}
    each = [{"lr": lr, "clip": clip, "weight_decay": decay, "seed": seed} for lr, clip, decay, seed in rows]
    return Program([Setting(**common, **fixed, **row) for row in each], CPU, threads=2)


@pytest.mark.parametrize("spec", ["splitfed:cut=1,passes=1", "splitfed:cut=2,passes=2,clip=per_side", "splitfed:cut=3"])
def test_few_samples_and_none(spec: str) -> None:
    """All participants of all lanes from the lanes' own models: tau_m steps each, and none where nothing is held."""
    program = small_clients(spec)
    form = program.algorithm.split
    assert form is not None
    in_c, in_torch = in_c_and_in_torch(program, form)
    assert isinstance(program.legs, Native)
    x, drawn = program.net.init(program.seeds), program.ahead(0, program.order(0))
    flat = Batches(*(torch.stack(field, 1).flatten(0, 1) for field in zip(*drawn, strict=True)))
    step = step_of(program.lanes.repeat(len(drawn)), flat)._replace(ragged=True)
    made, wanted = (way.train(x, step, flat) for way in (program.legs, in_torch))
    empty, taken = step.lr == 0, (flat.weight.sum(2) > 0).sum(1)
    assert empty.any()
    assert (len(set(taken[~empty].tolist())) > 1) is ("passes" in spec)
    begin = {n: leaf.repeat_interleave(len(drawn), 0) for n, leaf in x.items()}
    for name in x:
        assert torch.equal(made[name][empty], begin[name][empty])
    going = {n: (made[n][~empty], wanted[n][~empty], begin[n][~empty]) for n in x}
    assert far(*({n: three[i] for n, three in going.items()} for i in range(3))) < 1e-4
    # an empty batch is no step: no weight decay, nothing
    for leg in (~empty).nonzero().flatten()[:10].tolist():
        short = Batches(*(field[leg : leg + 1, : int(taken[leg])] for field in flat))
        one = {n: leaf[leg : leg + 1] for n, leaf in begin.items()}
        alone = in_c.train(one, Step(*(field[leg : leg + 1] for field in step[:3])), short)
        assert same({n: leaf[leg : leg + 1] for n, leaf in made.items()}, alone)


# Whole runs


@pytest.mark.parametrize(
    ("split", "plain_", "model"),
    [
        ("ssl:cut=1", "sequential", "mlp"),
        ("ssl:cut=0.3", "sequential", "lenet5"),
        ("ssl:cut=0.5,relay=server", "sequential", "lenet5"),
        ("splitfed:cut=0.5,weighting=size", "parallel:weighting=size", "lenet5"),
    ],
)
def test_ssl_in_c_is_sfl_in_c_and_splitfed_pfl(split: str, plain_: str, model: str) -> None:
    """To the bit in the lane that does not clip; a norm over two sides is rounded in another order."""
    ends = []
    for algorithm in (split, plain_):
        program = Program(lanes(model, algorithm=algorithm, rounds=3, eval_every=3), CPU, threads=2)
        assert isinstance(program.legs, Native)
        first = start(program)
        *_, last = advance(program, first)
        ends.append(last)
    assert all(torch.equal(leaf[0], ends[1].state.model[n][0]) for n, leaf in ends[0].state.model.items())
    assert far(ends[0].state.model, ends[1].state.model, first.state.model) < 1e-3
    for metric, rows in ends[0].history.items():
        if not metric.startswith("bytes"):
            for (_, a), (_, b) in zip(rows, ends[1].history[metric], strict=True):
                assert a == pytest.approx(b, rel=1e-3, abs=1.0 if "accuracy" in metric else 1e-3)


@settings(max_examples=60, deadline=None)
@given(chains(), st.data(), st.integers(1, 4), st.integers(1, 7), st.integers(1, 3))
def test_odd_chains_cut_anywhere(
    chain: tuple[nn.Module, tuple[int, ...], int], data: st.DataObject, lanes: int, batch: int, threads: int
) -> None:
    """Between any two layers that have weights before and behind them: the whole chain's steps and outputs."""
    module, shape, classes = chain
    try:
        module(torch.zeros(1, *shape))
    except RuntimeError:
        return  # the images got smaller than a window
    one = case(module, shape, classes, lanes, 2, batch)
    layers = graph.layers(module, torch.zeros(1, *shape))
    assert layers is not None
    weights = [i for i, layer in enumerate(layers) if layer.weight]
    assume(len(weights) > 1)
    cut = data.draw(st.integers(weights[0] + 1, weights[-1]))
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    kernels = native.compile(layers, sizes, shape, one.pixels, cut, folder=FOLDER)
    assert kernels is not None
    found, right = one._replace(kernels=kernels).steps(threads), one.steps()
    start = {name: leaf.double() for name, leaf in one.params.items()}
    assert error(found, {name: leaf.double() for name, leaf in right.items()}, start) < TOLERANCE
    own = torch.arange(len(one.inputs[3]))
    made, wanted = (k.logits(one.params, one.inputs[3], own, threads) for k in (kernels, one.kernels))
    torch.testing.assert_close(made, wanted)


def test_what_is_not_finite_stays_so() -> None:
    program = whole("lenet5")
    x, leg = program.net.init(program.seeds), program.ahead(0, program.order(0))[0]
    x["0.0.weight"][1] = math.nan
    found: Params = in_c_and_in_torch(program, Split("0.2"))[0].train(x, step_of(program.lanes, leg), leg)
    assert all(torch.isfinite(leaf[[0, 2]]).all() for leaf in found.values())
    assert not any(torch.isfinite(leaf[1]).all() for leaf in found.values())


@pytest.mark.parametrize(
    "fixed",
    [
        {"algorithm": "ssl:cut=1,head=4"},
        {"algorithm": "ssl:cut=1,smash_noise=0.1"},
        {"algorithm": "ssl:cut=1", "dtype": "float64"},
        {"algorithm": "ssl:cut=0", "model": "user_modules:tiny"},
        {"algorithm": "ssl:cut=3", "model": "resnet18", "dataset": "user_modules:pictures:side=8"},
    ],
)
def test_what_has_no_such_kernel_goes_through_torch(fixed: dict[str, str]) -> None:
    program = Program([Setting(**({"model": "mlp", "clients": 4} | fixed))], CPU)
    assert type(program.legs) is SplitLegs


def test_both_sides_have_stages() -> None:
    """Flattening is none."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Linear(4, 2))
    layers = graph.layers(module, torch.zeros(1, 1, 4, 4))
    assert layers is not None
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    found = [native.compile(layers, sizes, (1, 4, 4), None, cut, folder=FOLDER) is not None for cut in (1, 2, 3)]
    assert found == [False, True, True]


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_NATIVE", "0")
    program = Program([Setting(model="mlp", clients=4, algorithm="ssl:cut=1")], CPU)
    assert type(program.legs) is SplitLegs
