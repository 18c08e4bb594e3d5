"""Every way of training a leg gives the same numbers: C, closed forms, sides and plain PyTorch; also over rounds."""

import pytest
import torch
from torch import nn

from baton import datasets
from baton.clients import Batches, reached
from baton.datasets.quadratic import split
from baton.errors import BadInput
from baton.lanes import Params
from baton.legs import Legs
from baton.legs import compiled as legs_in_c
from baton.legs.base import Step, directed, measured
from baton.legs.compiled import Native
from baton.legs.plain import Plain
from baton.legs.quadratic import Quadratics
from baton.legs.split import SplitLegs
from baton.nn import graph
from baton.nn.cut import sides
from baton.nn.native import build
from baton.seam import Split, State
from baton.setting import Setting
from baton.simulate.arithmetic import precision_of
from baton.simulate.engine import Program, advance, start
from baton.simulate.kept import Table
from baton.simulate.rounds import ahead
from contracts.examples import CPU
from steps import TERMS, cut_short, directions, round_of, step_of, with_terms

SMALL = "user_modules:photos:channels=1,side=28"
MODELS = {
    "logistic": SMALL,
    "mlp": SMALL,
    "lenet5": SMALL,
    "cnn": SMALL,
    "vgg9": "user_modules:photos:augment=true",
}
compiled = pytest.mark.skipif(build.library() is None, reason="legs in C need a C compiler, and there is none here")


def lanes(model: str, **fixed: object) -> list[Setting]:
    rows = [(0.05, 0.0, 0.0, 1), (0.02, 0.5, 1e-2, 2), (0.1, 10.0, 1e-4, 3)]  # lr, clip, weight decay, seed
    common = {"dataset": MODELS[model], "model": model, "clients": 6, "participants": 2, "batch_size": 7} | fixed
    return [Setting(**common, lr=lr, clip=clip, weight_decay=decay, seed=seed) for lr, clip, decay, seed in rows]


def plain(program: Program) -> Plain:
    return Plain(program.net, datasets.load(program.setting.dataset, program.setting.clients), program.clients)


def far(a: Params, b: Params, start: Params) -> float:
    """How far apart two results are, as a share of how far they moved; the worst lane."""
    apart, moved = (sum((x[n] - y[n]).flatten(1).double().square().sum(1) for n in a) for x, y in ((a, b), (b, start)))
    return float((apart / moved).sqrt().max())


@compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_a_leg_in_c_is_the_plain_leg(model: str, threads: int) -> None:
    program = Program(lanes(model, local_steps=3), CPU, threads=threads)
    assert isinstance(program.legs, Native)
    x = program.net.init(program.seeds)
    drawn = program.ahead(0, program.order(0))
    for leg in (0, 1):
        step = step_of(program.lanes, drawn[leg])
        made, wanted = (way.train(x, step, drawn[leg]) for way in (program.legs, plain(program)))
        # VGG-9: among a million activations one may fall on the other side of a ReLU or a maximum, here or in torch
        assert far(made, wanted, x) < (3e-2 if model == "vgg9" else 1e-4)
        x = wanted


@compiled
@pytest.mark.parametrize("model", MODELS)
def test_outputs_in_c_are_the_plain_ones(model: str) -> None:
    program = Program(lanes(model), CPU, threads=2)
    x = program.net.init(program.seeds)
    pool, own = program.clients.x, torch.randint(0, 240, (3, 31))
    for places in (torch.arange(40), own):
        made, wanted = (way.outputs(x, pool, places) for way in (program.legs, plain(program)))
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)


@compiled
@pytest.mark.parametrize("algorithm", ["sequential", "parallel:weighting=size"])
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_whole_runs_agree(model: str, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    for native in ("1", "0"):
        monkeypatch.setenv("BATON_NATIVE", native)
        program = Program(lanes(model, algorithm=algorithm, rounds=4, eval_every=2), CPU, threads=2)
        assert isinstance(program.legs, Native if native == "1" else Plain)
        first = start(program)
        *_, last = advance(program, first)
        ends.append(last)
    assert far(ends[0].state.model, ends[1].state.model, first.state.model) < 1e-3
    for metric, rows in ends[0].history.items():
        for (_, a), (_, b) in zip(rows, ends[1].history[metric], strict=True):
            assert a == pytest.approx(b, rel=1e-3, abs=1.0 if "accuracy" in metric else 1e-3)


@compiled
def test_a_client_without_samples_hands_the_model_on() -> None:
    program = Program([Setting(model="mlp", clients=2000, participants=1, partition="iid:min_samples=0")], CPU)
    empty = (program.clients.start[0].diff() == 0).nonzero().flatten()
    assert len(empty)
    x = program.net.init(program.seeds)
    drawn = program.ahead(0, empty[:1].view(1, 1))[0]
    made = program.legs.train(x, step_of(program.lanes, drawn), drawn)
    assert all(torch.equal(made[name], x[name]) for name in x)


@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("family", ["quadratic_random:dim=3", "quadratic_random:dim=3,sigma=1", "quadratic:delta=1/3"])
def test_quadratics_in_closed_form_are_the_plain_leg(family: str, clip: float) -> None:
    common = {"dataset": family, "local_steps": 6}
    rows = [(0.05, 0.0, 0.0, 1), (0.02, clip, 1e-2, 2)]
    settings = [Setting(**common, lr=lr, clip=c, weight_decay=w, seed=s) for lr, c, w, s in rows]
    program = Program(settings, CPU)
    assert isinstance(program.legs, Quadratics)
    x = program.net.init(program.seeds)
    drawn = program.ahead(0, program.order(0))[0]
    for terms in ({}, *TERMS):
        step = with_terms(step_of(program.lanes, drawn), x, terms, anchors=1)
        made, wanted = (way.train(x, step, cut_short(drawn, step)) for way in (program.legs, plain(program)))
        assert far(made, wanted, x) < 1e-12, terms


@pytest.mark.parametrize("family", ["quadratic_random:dim=3", "quadratic"])
def test_on_quadratics_what_takes_no_step_stays_to_the_bit(family: str) -> None:
    """Though momentum would carry it on."""
    program = Program([Setting(dataset=family, local_steps=6, lr=0.05, seed=seed) for seed in (1, 2)], CPU)
    x = program.net.init(program.seeds)
    drawn = program.ahead(0, program.order(0))[0]
    step = with_terms(step_of(program.lanes, drawn), x, TERMS[-1])
    step = step._replace(lr=step.lr * torch.tensor([0.0, 1.0]), momentum=torch.full_like(step.lr, 0.9))
    early, late = (_ended_after(drawn, steps) for steps in (3, 6))
    made = program.legs.train(x, step, early)["x"]
    assert torch.equal(made[0], x["x"][0])
    shorter = Batches(*(field[:, :3] for field in drawn))
    assert torch.equal(made[1], program.legs.train(x, step, shorter)["x"][1])
    assert not torch.equal(made[1], program.legs.train(x, step, late)["x"][1])


def _ended_after(drawn: Batches, steps: int) -> Batches:
    weight = drawn.weight.clone()
    weight[:, steps:] = 0.0
    return drawn._replace(weight=weight)


@pytest.mark.parametrize(
    ("form", "clips"),
    [
        (Split("1"), [0.0, 0.5, 0.05]),
        (Split("1", head="4"), [0.0, 0.5, 0.05]),
        (Split("2", clip="per_side"), [0.0, 0.0, 0.0]),
    ],
    ids=["one cut", "two cuts", "two norms"],
)
@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: "+".join(sorted(terms)))
def test_split_legs_are_whole_legs(terms: set[str], form: Split, clips: list[float]) -> None:
    """Three legs of one model, with an anchor for all of them."""
    common = {"model": "mlp:hidden=5", "clients": 6, "local_steps": 4, "batch_size": 7, "dtype": "float64"}
    program = Program([Setting(**common, seed=i, clip=clip, weight_decay=0.1 * i) for i, clip in enumerate(clips)], CPU)
    x = program.net.init([1])
    drawn = program.ahead(0, program.order(0))[0]
    step = with_terms(step_of(program.lanes, drawn), x, terms, anchors=1)
    drawn = cut_short(drawn, step)
    whole = plain(program)
    data = datasets.load(program.setting.dataset, program.setting.clients)
    split = SplitLegs(program.net, data, program.clients, form, sides(program.net, form.cut, form.head), whole)
    made, wanted = (way.train(x, step, drawn) for way in (split, whole))
    assert list(made) == list(wanted)
    assert far(made, wanted, x) < 1e-12


@pytest.mark.parametrize(
    ("model", "dataset"),
    [
        ("resnet18", "user_modules:photos:side=8"),
        ("user_modules:conv", "digits"),
    ],
)
def test_lanes_that_are_looped_over_are_the_same_on_any_number_of_threads(model: str, dataset: str) -> None:
    settings = [Setting(model=model, dataset=dataset, clients=6, batch_size=4, seed=s, lr=0.01) for s in (1, 2, 3)]
    made = []
    for threads in (1, 3):
        program = Program(settings, CPU, threads=threads)
        assert type(program.legs) is Plain
        x = program.net.init(program.seeds)
        drawn = program.ahead(0, torch.tensor([[0], [3], [5]]))[0]
        trained = program.legs.train(x, step_of(program.lanes, drawn), drawn)
        made.append((trained, program.legs.outputs(trained, program.clients.x, torch.arange(9))))
    assert all(torch.equal(made[0][0][name], made[1][0][name]) for name in x)
    assert torch.equal(made[0][1], made[1][1])


# What moved a leg

MORE = {"momentum", "pull", "anchor", "ragged"}
SHIFTS = pytest.mark.parametrize("shifts", [0, 1, 3], ids=["no shift", "one for all", "one each"])
STARTS = pytest.mark.parametrize("starts", [1, 3], ids=["one start", "a start each"])


def steps_of(program: Program, drawn: Batches, x: Params, shifts: int) -> list[Step]:
    """A plain step and one with all terms, with a shift of so many lanes or none."""
    own, shift = step_of(program.lanes, drawn), {"shift"} if shifts else set()
    return [with_terms(own, x, terms | shift, anchors=1, shifts=shifts) for terms in (set(), MORE)]


def told_rightly(way: Legs, x: Params, step: Step, drawn: Batches, most: float) -> Params:
    """The directions of three legs, which train as they do without telling, against their definition.

    Neither where legs begin is written over, nor a shift that they share.
    """
    inverse = torch.tensor([0.0, 2.0, 30.0]).to(step.lr)
    before = [{n: leaf.clone() for n, leaf in given.items()} for given in (x, step.shift or {})]
    trained = way.train(x, step, drawn)
    right = directions(x, trained, step, inverse)
    slow = measured(way, x, step, drawn, inverse)
    quick = directed(way, x, step, drawn, inverse)
    for made, direction in (slow, quick):
        assert made.keys() == direction.keys() == x.keys()
        for name, leaf in right.items():
            assert torch.equal(made[name], trained[name])
            torch.testing.assert_close(direction[name], leaf, rtol=0, atol=most * float(leaf.abs().max()))
    for given, was in zip((x, step.shift or {}), before, strict=True):
        if len(next(iter(given.values()), inverse)) < len(inverse) or given is x:
            assert all(torch.equal(leaf, was[n]) for n, leaf in given.items())
    return quick[1]


@compiled
@SHIFTS
@STARTS
@pytest.mark.parametrize("model", ["mlp", "lenet5"])
def test_directions_in_c(model: str, starts: int, shifts: int) -> None:
    """Written over the shift where each leg has its own; leaves go by their names."""
    program = Program(lanes(model, local_steps=4), CPU, threads=2)
    assert isinstance(program.legs, Native)
    x = dict(reversed(program.net.init(program.seeds[:starts]).items()))
    drawn = program.ahead(0, program.order(0))[0]
    for step in steps_of(program, drawn, x, shifts):
        told = told_rightly(program.legs, x, step, cut_short(drawn, step), 1e-6)
        for name, leaf in (step.shift or {}).items():
            assert (told[name].data_ptr() == leaf.data_ptr()) is (shifts == 3)


@compiled
def test_a_shift_that_is_not_in_one_piece_is_not_written_over() -> None:
    program = Program(lanes("mlp", local_steps=2), CPU)
    x = program.net.init([1])
    drawn = program.ahead(0, program.order(0))[0]
    step = steps_of(program, drawn, x, 3)[0]
    assert step.shift is not None
    shift = {n: leaf.mT.contiguous().mT if leaf.dim() > 2 else leaf for n, leaf in step.shift.items()}
    told = told_rightly(program.legs, x, step._replace(shift=shift), drawn, 1e-6)
    assert not any(told[n].data_ptr() == leaf.data_ptr() for n, leaf in shift.items())


@compiled
@SHIFTS
@pytest.mark.parametrize("at_once", [1, 3])
def test_directions_in_c_where_samples_are_augmented(
    shifts: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leg in several calls."""
    program = Program(lanes("lenet5", dataset="user_modules:photos:augment=true", local_steps=4), CPU)
    assert isinstance(program.legs, Native)
    assert program.legs.augment is not None
    x, drawn = program.net.init([1]), program.ahead(0, program.order(0))[0]
    monkeypatch.setattr(legs_in_c, "AUGMENTED", at_once * drawn.places[:, 0].numel())
    for step in steps_of(program, drawn, x, shifts):
        told_rightly(program.legs, x, step, cut_short(drawn, step), 1e-6)


@SHIFTS
@STARTS
@pytest.mark.parametrize("form", [None, Split("1"), Split("1", head="4"), Split("2", clip="per_side")])
def test_directions_in_torch(form: Split | None, starts: int, shifts: int) -> None:
    common = {"model": "mlp:hidden=5", "clients": 6, "local_steps": 4, "batch_size": 7, "dtype": "float64"}
    program = Program([Setting(**common, seed=i, clip=0.5 * i, weight_decay=0.1 * i) for i in range(3)], CPU)
    way: Legs = plain(program)
    if form:
        data = datasets.load(program.setting.dataset, program.setting.clients)
        way = SplitLegs(program.net, data, program.clients, form, sides(program.net, form.cut, form.head), way)
    x, drawn = program.net.init(program.seeds[:starts]), program.ahead(0, program.order(0))[0]
    for step in steps_of(program, drawn, x, shifts):
        told_rightly(way, x, step, cut_short(drawn, step), 1e-12)


@SHIFTS
@STARTS
@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_directions_on_quadratics(clip: float, starts: int, shifts: int) -> None:
    common = {"dataset": "quadratic_random:dim=3,sigma=1", "clients": 5, "local_steps": 6, "lr": 0.02}
    program = Program([Setting(**common, clip=clip, weight_decay=0.1, seed=seed) for seed in (1, 2, 3)], CPU)
    assert isinstance(program.legs, Quadratics)
    x, drawn = program.net.init(program.seeds[:starts]), program.ahead(0, program.order(0))[0]
    for step in steps_of(program, drawn, x, shifts):
        told_rightly(program.legs, x, step, cut_short(drawn, step), 1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_a_direction_is_the_mean_of_what_moved_a_leg(momentum: float) -> None:
    """One step after another: the sum of the gradients' parts, each counted as often as momentum carries it on."""
    setting = Setting(dataset="quadratic_random:dim=3", clients=3, local_steps=5, lr=0.05, momentum=momentum)
    program = Program([setting], CPU)
    x, drawn = program.net.init([1]), program.ahead(0, program.order(0))[0]
    step = with_terms(step_of(program.lanes, drawn), x, {"shift"})._replace(momentum=program.lanes.momentum)
    shift, places = {n: leaf.clone() for n, leaf in (step.shift or {}).items()}, drawn.places[0, :, 0].tolist()
    hessian, slope, _ = split(program.clients.x)
    at, v, total, reach = x["x"][0], torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64), 0.0
    for k, sample in enumerate(places):
        carried = (1 - momentum ** (5 - k)) / (1 - momentum)
        g = hessian[sample] @ at + slope[sample]
        total, reach = total + carried * g, reach + carried
        v = momentum * v + g + shift["x"][0]
        at = at - 0.05 * v
    assert float(reached(torch.tensor([5.0]), torch.tensor([momentum]))) == pytest.approx(reach)
    _, told = directed(program.legs, x, step, drawn, torch.tensor([1 / (0.05 * reach)], dtype=torch.float64))
    torch.testing.assert_close(told["x"][0], total / reach, rtol=1e-12, atol=1e-12)


# Which way is taken


class Reused(nn.Module):
    """One layer used twice: its gradient is a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x))


class Untouched(nn.Module):
    """A parameter that no layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.other = nn.Linear(4, 4), nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def tied() -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    made[2].weight = made[0].weight
    return made


@pytest.mark.parametrize(
    "module",
    [
        Reused(),
        Untouched(),
        tied(),
        nn.Sequential(nn.Linear(4, 4), nn.GELU()),
        nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)),
        nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Flatten(), nn.Linear(4, 4)),
    ],
    ids=lambda module: type(module).__name__,
)
def test_what_is_not_all_known_layers_has_no_list(module: nn.Module) -> None:
    assert graph.layers(module, torch.zeros(1, 4)) is None


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(2, 2, 3, groups=2),
        nn.Conv2d(2, 2, 3, dilation=2),
        nn.Conv2d(2, 2, (3, 1)),
        nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"),
        nn.MaxPool2d(3),
        nn.MaxPool2d(2, padding=1),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.AdaptiveAvgPool2d(2),
        nn.AvgPool2d(2),
    ],
    ids=str,
)
def test_layers_with_options_that_have_no_kernel_are_unknown(layer: nn.Module) -> None:
    module = nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(3))
    module(torch.zeros(1, 2, 9, 9))
    assert graph.layers(module, torch.zeros(1, 2, 9, 9)) is None


def test_a_residual_net_is_a_list_with_sums() -> None:
    program = Program([Setting(dataset="user_modules:photos:side=8", model="resnet18", clients=2)], CPU)
    found = program.net.layers()
    assert found is not None
    assert [layer.kind for layer in found].count("add") == 8
    assert isinstance(program.legs, Plain)  # no chain


@pytest.mark.parametrize(
    "fixed", [{"dtype": "float64"}, {"model": "user_modules:tiny"}, {"dataset": "user_modules:blobs"}]
)
def test_what_has_no_kernel_is_trained_plainly(fixed: dict[str, str]) -> None:
    assert type(Program([Setting(clients=4, **fixed)], CPU).legs) is Plain


def test_bytes_with_a_preparation_of_the_users_own_are_trained_plainly() -> None:
    program = Program([Setting(dataset="user_modules:stored_digits", clients=4)], CPU)
    assert type(program.legs) is Plain


def test_precision_belongs_to_the_device() -> None:
    assert precision_of("auto", CPU) == "fp32"
    assert precision_of("auto", torch.device("cuda")) == "bf16"
    with pytest.raises(BadInput, match="precision: 'bf16' needs a GPU"):
        precision_of("bf16", CPU)
    with pytest.raises(BadInput, match="precision: 'half'; auto, fp32, tf32 or bf16"):
        precision_of("half", torch.device("cuda"))


# Drawing ahead


@pytest.mark.parametrize("schedule", ["shuffled", "fixed", "user_modules:round_robin"])
@pytest.mark.parametrize("sampling", ["shuffle", "replacement"])
def test_rounds_drawn_together_are_those_drawn_alone(schedule: str, sampling: str) -> None:
    common = {"clients": 9, "participants": 3, "rounds": 40, "lr": 0.05, "sampling": sampling, "schedule": schedule}
    program = Program([Setting(**common, seed=seed) for seed in (1, 2)], CPU)
    orders = program.orders(range(5, 9))
    for i, round in enumerate(range(5, 9)):
        assert torch.equal(orders[:, i], program.order(round))
    train, diverged = ahead(program), torch.full((2,), -1)
    state = State(program.net.init(program.seeds))
    for round in range(3, 7):
        order, made, _ = train(round, state, Table({}, None), diverged)
        assert torch.equal(order, program.order(round))
        alone = round_of(program, state.model, round, order.clone())
        assert all(torch.equal(made.model[name], alone[name]) for name in alone)
        state = made
