"""Split learning: SSL is SFL and SplitFed 1 is PFL, at every cut of every model; and the sides share nothing else."""

import copy
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import baton
import baton.datasets
from baton import algorithms
from baton.api import run
from baton.lanes import Params
from baton.legs.plain import Plain
from baton.legs.split import Last, Middle, SplitLegs, Wire, noisy
from baton.nn.cut import cuts, sides
from baton.seam import Cohort
from baton.setting import Setting
from baton.simulate.engine import Program
from contracts.examples import CPU, DATA, cases, finish, refused
from steps import drawn_at, round_of, sites_of, step_of

MODELS = ("mlp", "lenet5", "cnn", "vgg9", "resnet18")
HEAVY = ("vgg9", "resnet18")  # one lane, one step
ROWS = [
    (0.1, 0.3, 1e-2, 1),
    (0.05, 0.0, 0.0, 2),
]  # lr, clip, weight decay, seed: one lane that clips, one that does not


@cache
def whole(model: str) -> Program:
    """Lanes of a small world, their model not cut."""
    common = {"dataset": DATA["model"].get(model, "digits"), "model": model, "clients": 4, "participants": 2}
    small = {"local_steps": 1 if model in HEAVY else 2, "batch_size": 2, "dtype": "float64"}
    rows = [{"lr": lr, "clip": clip, "weight_decay": decay, "seed": seed} for lr, clip, decay, seed in ROWS]
    return Program([Setting(**common, **small, **row) for row in rows[: 1 if model in HEAVY else 2]], CPU)


def cut_as(program: Program, spec: str) -> Program:
    """The same world, the same network, under another algorithm: models need not be built again."""
    other = copy.copy(program)
    other.algorithm = algorithms.build(spec)
    form = other.algorithm.split
    other.sides = sides(program.net, form.cut, form.head) if form else None
    other.passes = form.passes if form else 0
    data = baton.datasets.load(program.setting.dataset, program.setting.clients)
    plain = Plain(program.net, data, program.clients)
    other.legs = SplitLegs(program.net, data, program.clients, form, other.sides, plain) if form else plain
    return other


def a_round(program: Program, spec: str) -> Params:
    p = cut_as(program, spec)
    return round_of(p, p.net.init(p.seeds))


def far(a: Params, b: Params) -> float:
    """As a share of the largest parameter."""
    return max(float((a[n] - b[n]).abs().max()) for n in a) / max(float(leaf.abs().max()) for leaf in b.values())


@cache
def reference(model: str, spec: str) -> Params:
    return a_round(whole(model), spec)


@pytest.mark.parametrize("model", cases(MODELS, [m for m in MODELS if m not in ("vgg9", "resnet18")]))
def test_at_every_cut_ssl_is_sfl_and_splitfed_one_is_pfl(model: str) -> None:
    program = whole(model)
    start = program.net.init(program.seeds)
    for cut in cuts(program.net):
        for split, plain in ((f"ssl:cut={cut.name}", "sequential"), (f"splitfed:cut={cut.name}", "parallel")):
            made = a_round(program, split)
            assert made.keys() == start.keys()
            assert far(made, reference(model, plain)) < 1e-13, (split, plain)
            assert far(made, start) > 1e-4


@pytest.mark.parametrize(("cut", "head"), [("0.2", "3"), ("0.5", "5"), ("0.0", "6"), ("2", "4")])
def test_with_the_labels_at_the_client_too(cut: str, head: str) -> None:
    program = whole("lenet5")
    assert far(a_round(program, f"ssl:cut={cut},head={head}"), reference("lenet5", "sequential")) < 1e-13
    assert far(a_round(program, f"splitfed:cut={cut},head={head}"), reference("lenet5", "parallel")) < 1e-13


@pytest.mark.parametrize("model", ["tiny", "embedded", "conv", "tied", "inplace"])
def test_modules_of_the_users_own_are_cut_by_layer_name(model: str) -> None:
    program = whole(f"user_modules:{model}")
    found = cuts(program.net)
    assert found
    for cut in found:
        made = a_round(program, f"ssl:cut={cut.name}")
        assert far(made, a_round(program, "sequential")) < 1e-13


def test_whole_runs_agree_through_the_front_door(tmp_path: Path) -> None:
    common = {"model": "mlp:hidden=6", "clients": 8, "participants": 3, "partition": "dirichlet:alpha=0.5"}
    more = {"dtype": "float64", "rounds": 6, "eval_every": 3, "clip": 0.5, "weight_decay": 0.01, "lr": 0.1}
    specs = ("sequential", "ssl:cut=2", "parallel:weighting=size", "splitfed:cut=3,weighting=size")
    done = run([Setting(**common, **more, algorithm=spec) for spec in specs], tmp_path, quiet=True)
    for one, other in (done[:2], done[2:]):
        for metric in ("test_loss", "train_loss", "test_accuracy"):
            assert other.metrics[metric] == pytest.approx(one.metrics[metric], rel=1e-10)


def test_clipped_a_side_at_a_time_ssl_is_not_sfl() -> None:
    """As published code does it; in the lane without clipping nothing changes."""
    made, sfl = a_round(whole("mlp"), "ssl:cut=1,clip=per_side"), reference("mlp", "sequential")
    clips, free = ({n: leaf[lane : lane + 1] for n, leaf in made.items()} for lane in (0, 1))
    assert far(clips, {n: leaf[:1] for n, leaf in sfl.items()}) > 1e-3
    assert far(free, {n: leaf[1:] for n, leaf in sfl.items()}) < 1e-13


@pytest.mark.parametrize("spec", ["ssl:cut=0.5", "ssl:cut=0.5,head=4,clip=per_side", "splitfed:cut=0.2,version=2"])
def test_each_side_clips_by_what_it_is_told(spec: str) -> None:
    """Gradients of a step, taken together and apart, against torch's clip_grad_norm_."""
    program = cut_as(whole("lenet5"), spec)
    legs, seen = program.legs, []
    assert isinstance(legs, SplitLegs)
    x = program.net.init(program.seeds)
    drawn = program.ahead(0, program.order(0))[0]
    one = drawn._replace(places=drawn.places[:, :1], weight=drawn.weight[:, :1], key=drawn.key[:, :1])
    client, server = legs.sides.split(x)
    at = one.places[:, 0]
    y = program.clients.y[at]
    own, its = legs._slopes(client, server, one.key[:, 0], program.clients.x[at], y, one.weight[:, 0])
    made = legs.train(x, step_of(program.lanes, one), one)
    sets = [own, its] if "per_side" in spec else [own | its]
    for lane, (lr, clip, decay, _) in enumerate(ROWS):
        for part in sets:
            params = {n: nn.Parameter(x[n][lane].clone()) for n in part}
            for n, p in params.items():
                p.grad = part[n][lane].clone()
            if clip:
                seen.append(float(nn.utils.clip_grad_norm_(list(params.values()), clip)))
            torch.optim.SGD(params.values(), lr=lr, weight_decay=decay).step()
            for n, p in params.items():
                torch.testing.assert_close(made[n][lane], p.detach(), rtol=1e-12, atol=1e-14)
    assert max(seen) > 0.3  # something was clipped


def test_relay_changes_the_traffic_and_no_number(tmp_path: Path) -> None:
    common = {"model": "mlp", "clients": 4, "participants": 2, "rounds": 3, "eval_every": 1}
    peer, server = run(
        [Setting(**common, algorithm=f"ssl:cut=1,relay={relay}") for relay in ("peer", "server")], tmp_path, quiet=True
    )
    for metric, values in peer.metrics.items():
        assert (metric.startswith("bytes")) or (values == server.metrics[metric]).all()
    handed = 2 * (64 * 64 + 64) * 4  # a round: two legs, one layer in float32
    for metric, more in (("bytes_up", handed), ("bytes_down", handed), ("bytes_peer", -handed)):
        assert (server.metrics[metric] - peer.metrics[metric]).tolist() == [0, more, 2 * more, 3 * more]


def test_with_one_participant_all_of_split_learning_is_one() -> None:
    settings = {"model": "mlp:hidden=6", "clients": 8, "participants": 1, "dtype": "float64", "rounds": 4, "lr": 0.05}
    specs = ("ssl:cut=2", "splitfed:cut=1", "splitfed:cut=1,version=2", "sequential")
    states = [finish([Setting(**settings, algorithm=spec)])[1].state.model for spec in specs]
    assert all(far(state, states[-1]) < 1e-13 for state in states)


def test_splitfed_two_carries_the_server_side_on() -> None:
    """By hand: each client starts from the common client side and from the server side the one before it left."""
    program = cut_as(whole("mlp"), "splitfed:cut=1,version=2")
    x, order, sites = program.net.init(program.seeds), program.order(0), sites_of(program)
    assert program.sides is not None
    carried, mine = dict(x), []
    for client in Cohort.whole(order):
        start = {n: x[n] if n in program.sides.front.names else carried[n] for n in x}
        made = sites.train(start, client).x
        carried = made
        mine.append(made)
    wanted = {n: (mine[0][n] + mine[1][n]) / 2 if n in program.sides.front.names else carried[n] for n in x}
    assert far(round_of(program, x), wanted) < 1e-15


# tau_m


@pytest.mark.parametrize("spec", ["ssl:cut=1,passes=1", "ssl:cut=1,passes=2", "ssl:cut=1"])
def test_clients_with_few_samples_take_fewer_steps(spec: str) -> None:
    """Each leg is a plain one with K = tau_m."""
    partition = "dirichlet:alpha=0.1,min_samples=1"
    common = {"model": "mlp:hidden=6", "clients": 40, "participants": 6, "partition": partition, "dtype": "float64"}
    setting = Setting(**common, local_steps=7, batch_size=10, algorithm=spec, weight_decay=0.1, clip=0.5)
    program = Program([setting], CPU)
    passes = int(spec.partition("passes=")[2] or 0)
    x, order, taken = program.net.init(program.seeds), program.order(0), []
    want = x
    for client in order[0].tolist():
        held = int(program.clients.start[0].diff()[client])
        taken.append(min(7, passes * -(-held // 10)) if passes else 7)
        short = Setting(**{**setting.model_dump(), "local_steps": taken[-1], "algorithm": "sequential"})
        plain = Plain(program.net, baton.datasets.load("digits", 40), program.clients)
        leg = drawn_at(program.clients, program.lanes, 0, torch.tensor([client]), short)
        want = plain.train(want, step_of(program.lanes, leg), leg)
    assert len(set(taken)) > 1 or not passes
    assert far(round_of(program, x), want) < 1e-13


# What crosses


class Post(Wire):
    """Everything travels as bytes: no graph, no shared memory."""

    def __init__(self) -> None:
        self.letters: list[tuple[str, str, tuple[int, ...]]] = []

    def _cross(self, way: str, what: str, x: Tensor) -> Tensor:
        self.letters.append((way, what, tuple(x.shape)))
        received = torch.frombuffer(bytearray(x.detach().contiguous().numpy().tobytes()), dtype=x.dtype)
        return received.view(x.shape)


MESSAGES = {
    "ssl:cut=0.5": [("up", "smashed data"), ("up", "labels"), ("down", "slope"), ("up", "norm"), ("down", "norm")],
    "ssl:cut=0.5,clip=per_side": [("up", "smashed data"), ("up", "labels"), ("down", "slope")],
    "ssl:cut=0.5,head=4": [
        ("up", "smashed data"),
        ("down", "features"),
        ("up", "slope of the features"),
        ("down", "slope"),
        ("up", "norm"),
        ("down", "norm"),
    ],
}


@pytest.mark.parametrize("spec", MESSAGES)
def test_a_step_is_its_messages_and_nothing_else_is_shared(spec: str) -> None:
    straight, posted = (cut_as(whole("lenet5"), spec) for _ in range(2))
    assert isinstance(posted.legs, SplitLegs)
    post = posted.legs.wire = Post()
    x = posted.net.init(posted.seeds)
    leg = posted.ahead(0, posted.order(0))[0]
    made, wanted = (p.legs.train(x, step_of(p.lanes, leg), leg) for p in (posted, straight))
    assert all(torch.equal(made[name], wanted[name]) for name in x)
    assert [letter[:2] for letter in post.letters] == 2 * MESSAGES[spec]  # two steps
    shapes = {what: shape for _, what, shape in post.letters}
    assert shapes["smashed data"] == shapes["slope"] == (2, 2, 16, 4, 4)


@pytest.mark.parametrize("spec", ["ssl:cut=0.2", "ssl:cut=0.2,head=3"])
def test_the_server_sees_neither_samples_nor_the_clients_parameters(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = cut_as(whole("lenet5"), spec)
    legs = program.legs
    assert isinstance(legs, SplitLegs)
    seen: list[object] = []
    kinds = {Last: ["__call__"], Middle: ["backward"]}
    for kind, methods in kinds.items():
        for method in methods:
            known = getattr(kind, method)

            def spy(self: object, *given: object, known: object = known) -> object:
                if self is legs.server:
                    seen.extend(given)
                return known(self, *given)  # type: ignore[operator]

            monkeypatch.setattr(kind, method, spy)
    leg = program.ahead(0, program.order(0))[0]
    legs.train(program.net.init(program.seeds), step_of(program.lanes, leg), leg)
    assert seen
    server = {*legs.sides.back.names}
    for given in seen:
        if isinstance(given, dict):
            assert given.keys() == server
        elif isinstance(given, Tensor):
            assert tuple(given.shape[2:]) not in ((1, 28, 28), (28, 28))
            assert given.untyped_storage().data_ptr() != program.clients.x.untyped_storage().data_ptr()
            labels = given.dtype == torch.int64 and given.dim() == 2
            assert not (labels and "head" in spec)
    held = {name for name, _ in legs.server.side._module.named_parameters()}
    assert held == server


def test_the_smashed_data_get_keyed_noise() -> None:
    program = whole("lenet5")
    quiet, noisy, again = (cut_as(program, f"ssl:cut=0.5{more}") for more in ("", *[",smash_noise=0.5"] * 2))
    heard: list[Tensor] = []
    x, leg = program.net.init(program.seeds), program.ahead(0, program.order(0))[0]
    one = leg._replace(places=leg.places[:, :1], weight=leg.weight[:, :1], key=leg.key[:, :1])
    for p in (quiet, noisy, again):
        assert isinstance(p.legs, SplitLegs)
        p.legs.wire.listen = lambda _way, what, t: heard.append(t) if what == "smashed data" else None
        p.legs.train(x, step_of(p.lanes, one), one)
    size = heard[0].flatten(2).square().mean(2).sqrt().view(2, 2, 1, 1, 1)
    added = ((heard[1] - heard[0]) / size).flatten()  # 2 lanes x 2 samples x 256
    assert torch.equal(heard[1], heard[2])
    assert float(added.std()) == pytest.approx(0.5, rel=0.1)  # of each sample's own size
    assert abs(float(added.mean())) < 0.1
    assert not torch.equal(heard[1][0] - heard[0][0], heard[1][1] - heard[0][1])  # lanes draw their own


@pytest.mark.parametrize("spec", ["ssl:cut=3,smash_noise=0.7", "ssl:cut=1,head=4,smash_noise=0.7"])
def test_with_noise_the_gradient_is_that_of_the_noisy_model(spec: str) -> None:
    """Against autograd through both sides at once; a sample whose smashed data are all zero has one too."""
    program = cut_as(whole("mlp"), spec)
    legs = program.legs
    assert isinstance(legs, SplitLegs)
    x, leg = program.net.init(program.seeds), program.ahead(0, program.order(0))[0]
    x["1.bias"][1] = -100.0  # this lane's hidden units are dead
    at, key, weight = leg.places[:, 0], leg.key[:, 0], leg.weight[:, 0]
    samples, y = program.clients.x[at], program.clients.y[at]
    own, its = legs._slopes(*legs.sides.split(x), key, samples, y, weight)
    for lane in range(2):
        mine = {n: leaf[lane].clone().requires_grad_() for n, leaf in x.items()}
        sent = noisy(key[lane], legs.sides.front(legs.sides.front.of(mine), key[lane], samples[lane]), 0.7)
        output = legs.sides.back(legs.sides.back.of(mine), key[lane], sent)
        loss = (nn.functional.cross_entropy(output, y[lane], reduction="none") * weight[lane]).sum() / weight[
            lane
        ].sum()
        for name, slope in zip(mine, torch.autograd.grad(loss, list(mine.values())), strict=True):
            assert bool(slope.isfinite().all())
            torch.testing.assert_close((own | its)[name][lane], slope, rtol=1e-10, atol=1e-12)


def test_split_legs_are_never_trained_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """float32 and cross-entropy, where kernels train whole legs: with labels at the client they only evaluate."""
    program = Program([Setting(model="mlp", clients=4, algorithm="ssl:cut=1,head=4", clip=1.0)], CPU)
    assert type(program.legs) is SplitLegs

    def trained(*_: object) -> None:
        raise AssertionError("a whole model was trained")

    whole_ = program.legs.outputs.__self__  # type: ignore[attr-defined]
    monkeypatch.setattr(type(whole_), "train", trained)
    sites_of(program).train(program.net.init(program.seeds), Cohort(torch.tensor([0])))


@pytest.mark.parametrize(
    ("algorithm", "more", "said"),
    [
        ("ssl:cut=7", {"model": "mlp"}, "algorithm: cut=7 is not a layer of 'mlp'; did you mean '3'?"),
        ("ssl:cut=1", {}, "algorithm: model 'logistic' cannot be cut"),
        ("splitfed:cut=1", {"dataset": "quadratic"}, "algorithm: model 'quadratic' cannot be cut"),
        (
            "ssl:cut=3.second",
            {"model": "resnet18", "dataset": "user_modules:pictures:side=8"},
            "algorithm: cut=3.second lies inside the residual block '3'; did you mean '3'?",
        ),
    ],
)
def test_what_cannot_be_cut_is_said_in_one_line(algorithm: str, more: dict[str, object], said: str) -> None:
    assert refused({"algorithm": algorithm, **more}).startswith(said)


def test_a_bad_cut_is_said_before_anything_trains(tmp_path: Path) -> None:
    fine, bad = Setting(rounds=2), Setting(model="mlp", algorithm="ssl:cut=9", rounds=2)
    with pytest.raises(baton.BadInput, match="cut=9 is not a layer"):
        run([fine, bad], tmp_path, quiet=True)
    assert not list(tmp_path.glob("*/metrics.csv"))
