"""Lanes do not see each other; a lane that diverges hurts no other; dropout is keyed; any module runs on lanes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.func import vmap
from torch.nn.functional import cross_entropy

import baton
from baton import rng
from baton.errors import BadInput
from baton.nn import KeyedDropout, Net
from baton.seam import Cohort
from baton.setting import Setting
from baton.simulate.engine import Program, Snapshot
from contracts.examples import CPU, cases, examples, finish, series, stages
from steps import drawn_at, sites_of
from user_modules import two_dropouts

PARTITIONS = ["iid", "iid:seed=3", "exdir:C=2,alpha=10", "dirichlet:alpha=0.2,min_samples=0", "exdir:C=10,alpha=100"]


def crowd(**common: object) -> list[Setting]:
    """101 lanes that differ in everything lanes may differ in; clients of 0 to over 100 samples."""
    base = {"clients": 60, "participants": 4, "local_steps": 3, "rounds": 3, "eval_every": 3, **common}
    return [
        Setting(
            **base,
            lr=0.02 * (1 + i % 13),
            clip=(0.0, 0.1, 1.0)[i % 3],
            weight_decay=(0.0, 1e-3)[i % 2],
            seed=i % 17,
            partition=PARTITIONS[i % 5],
        )
        for i in range(101)
    ]


def assert_same_lane(alone: Snapshot, together: Snapshot, lane: int, rtol: float) -> None:
    for name, leaf in alone.state.model.items():
        scale = float(leaf.abs().max())
        torch.testing.assert_close(together.state.model[name][lane], leaf[0], rtol=0, atol=rtol * scale)
    assert int(alone.diverged[0]) == int(together.diverged[lane])
    assert alone.history.keys() == together.history.keys()
    for metric in alone.history:
        if metric.endswith("loss"):  # an accuracy jumps by a whole sample where two outputs tie
            assert list(series(alone, metric).values()) == pytest.approx(
                list(series(together, metric, lane).values()), rel=10 * rtol
            )


# Float32: a batched matrix product is blocked by the number of lanes, so that sums may be taken in another order and
# differ in the last place (6e-8); training carries that on (4e-7 was seen, other machines block differently).
# Float64 takes the same paths with a last place of 1e-16.
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-10), ("float32", 1e-5)])
@pytest.mark.parametrize("algorithm", ["sequential", "parallel:weighting=size"])
@pytest.mark.parametrize(("model", "sampling"), [("mlp:hidden=8", "shuffle"), ("logistic", "replacement")])
def test_a_lane_is_the_same_alone_and_among_100_others(
    dtype: str, rtol: float, algorithm: str, model: str, sampling: str
) -> None:
    settings = crowd(dtype=dtype, algorithm=algorithm, model=model, sampling=sampling)
    assert len({s.shape_key for s in settings}) == 1
    _, together = finish(settings)
    for lane in (33, 68, 100):
        _, alone = finish([settings[lane]])
        assert_same_lane(alone, together, lane, rtol)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_quadratic_lanes_of_different_families_do_not_mix(place: int) -> None:
    """Each with its own Hessians, optimum and noise, whichever comes first."""
    specs = [f"quadratic_random:dim=3,{o}" for o in ("seed=1", "sigma=2,seed=2", "L=20,zeta=5,sigma=0.5")]
    specs = specs[place:] + specs[:place]
    settings = [Setting(dataset=spec, clients=4, rounds=6, lr=0.02, seed=i) for i, spec in enumerate(specs)]
    assert len({s.shape_key for s in settings}) == 1
    _, together = finish(settings)
    for lane, setting in enumerate(settings):
        _, alone = finish([setting])
        assert_same_lane(alone, together, lane, 1e-10)
        for metric in ("distance", "objective_gap"):
            assert series(alone, metric) == pytest.approx(series(together, metric, lane), rel=1e-10)


# What is None, or a constant, where every lane has it so: the first lane is plain, and has company that is not.
RATES = ["constant", "step:every=1,factor=0.5", "cosine", "exponential:factor=0.8,warmup=2", "cosine:over=2"]
MOMENTA = [0.0, 0.9, 0.5, 0.0, 0.9]
NUMBERS = {
    "sequential": ["", "", "", "", ""],
    "parallel": ["", ":server_lr=0.5", ":server_lr=1.5", ":server_lr=1", ":server_lr=0.1"],
    "fedprox": [":mu=0", ":mu=0.3", ":mu=2", ":mu=0", ":mu=0.01"],
    "fedavgm": [":beta=0", ":beta=0.5,server_lr=0.7", ":server_lr=0.3", ":beta=0,server_lr=0.5", ""],
    "scaffold": ["", ":server_lr=0.5", ":server_lr=1.5", "", ":server_lr=0.1"],
}


def company(algorithm: str, **fixed: object) -> list[Setting]:
    """Five lanes that differ in numbers of the step, of the rate's schedule and of the algorithm itself."""
    base = {"clients": 6, "participants": 3, "local_steps": 3, "rounds": 4, "eval_every": 4, "lr": 0.1} | fixed
    rows = zip(RATES, MOMENTA, NUMBERS[algorithm], strict=True)
    return [
        Setting(**base, lr_schedule=rate, momentum=m, algorithm=algorithm + spec, seed=i, clip=(i % 2) * 1.0)
        for i, (rate, m, spec) in enumerate(rows)
    ]


# In C a lane is the same to the bit; what server and clients do with it goes through torch.
@pytest.mark.parametrize(
    ("fixed", "rtol"),
    [
        ({"model": "mlp:hidden=6", "dtype": "float64"}, 1e-10),
        ({"dataset": "quadratic_random:dim=3,sigma=1", "lr": 0.02}, 1e-10),
        ({"model": "mlp:hidden=6"}, 1e-5),
    ],
    ids=["mlp", "quadratics", "mlp in float32"],
)
@pytest.mark.parametrize("algorithm", NUMBERS)
def test_momentum_rates_and_an_algorithms_numbers_are_lanes(
    algorithm: str, fixed: dict[str, object], rtol: float
) -> None:
    settings = company(algorithm, **fixed)
    assert len({s.shape_key for s in settings}) == 1
    _, together = finish(settings)
    ends = []
    for lane, setting in enumerate(settings):
        _, alone = finish([setting])
        assert_same_lane(alone, together, lane, rtol)
        for drawer, among in ((alone.state.server, together.state.server), (alone.clients, together.clients)):
            assert drawer.keys() == among.keys()
            for name, leaf in drawer.items():
                torch.testing.assert_close(among[name][lane], leaf[0], rtol=0, atol=rtol * float(leaf.abs().max()))
        ends.append(alone.state.model)
    plain = finish([Setting(**{**s.model_dump(), "momentum": 0.0, "lr_schedule": "constant"}) for s in settings])[1]
    for lane, end in enumerate(ends):  # and they do something
        same = all(torch.allclose(leaf[0], plain.state.model[n][lane], rtol=1e-6) for n, leaf in end.items())
        assert same is (lane == 0)


@pytest.mark.parametrize("algorithm", [name for name in NUMBERS if name != "sequential"])
def test_an_algorithms_numbers_make_a_difference(algorithm: str) -> None:
    """The same seed and rate in every lane: two lanes are one where their numbers are."""
    specs = [algorithm + spec for spec in NUMBERS[algorithm]]
    common = {"dataset": "quadratic_random:dim=3", "clients": 6, "participants": 3, "rounds": 3, "lr": 0.02}
    settings = [Setting(**common, algorithm=spec) for spec in specs]
    x = finish(settings)[1].state.model["x"]
    for i, one in enumerate(settings):
        for j, other in enumerate(settings[:i]):
            alike = torch.allclose(x[i], x[j], rtol=1e-12, atol=0)
            assert alike is (one.algorithm == other.algorithm)


# Divergence

WILD = {
    "mlp": {"model": "mlp", "lr": 1e6, "clients": 10, "rounds": 12, "eval_every": 6},
    "quadratic": {"dataset": "quadratic", "lr": 1e9, "rounds": 12, "eval_every": 6},
}
CALM = {"mlp": 0.1, "quadratic": 0.5}


@pytest.mark.parametrize("kind", WILD)
@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_a_lane_that_diverges_is_recorded_frozen_and_harmless(kind: str, algorithm: str) -> None:
    wild = Setting(**WILD[kind], algorithm=algorithm, seed=5)
    calm = [Setting(**{**WILD[kind], "lr": CALM[kind]}, algorithm=algorithm, seed=seed) for seed in (1, 2, 3)]
    _, seen = stages([calm[0], wild, calm[1]])
    at = int(seen[-1].diverged[1])
    assert 1 <= at < 12
    assert seen[-1].diverged.tolist() == [-1, at, -1]
    for snapshot in seen:
        assert int(snapshot.diverged[1]) == (at if snapshot.round >= at else -1)
        for name, leaf in snapshot.state.model.items():
            assert bool(leaf.isfinite().all())
            if snapshot.round >= at:
                assert torch.equal(leaf[1], seen[at - 1].state.model[name][1])
    _, harmless = finish([calm[0], calm[2], calm[1]])  # a calm lane in its place: the rest bit for bit
    for name, leaf in seen[-1].state.model.items():
        assert torch.equal(leaf[[0, 2]], harmless.state.model[name][[0, 2]])
    for metric, rows in seen[-1].history.items():
        for (_, a), (_, b) in zip(rows, harmless.history[metric], strict=True):
            assert np.array_equal(a[[0, 2]], b[[0, 2]])


def test_a_diverged_run_is_stored_with_its_round(tmp_path: Path) -> None:
    wild, calm = Setting(**WILD["mlp"], seed=5), Setting(**{**WILD["mlp"], "lr": 0.1})
    _, at = finish([wild])
    found, other = baton.run([wild, calm], tmp_path)
    assert found.complete
    assert found.diverged == int(at.diverged[0])
    assert found.metrics["round"][-1] == found.diverged
    assert np.isnan(found.metrics["test_loss"][-1])
    assert np.isfinite(found.metrics["test_loss"][:-1]).all()
    state = baton.Store(tmp_path).params(wild.run_id)
    assert all(bool(leaf.isfinite().all()) for leaf in state.values())
    assert other.diverged is None
    assert other.metrics["round"][-1] == 12


# Dropout


def masks(layer: KeyedDropout, key: torch.Tensor, width: int = 50, batch: int = 20) -> torch.Tensor:
    """[L, b, width]: what becomes of ones under each key."""
    layer.train()
    layer.calls = 0
    return vmap(lambda k: torch.func.functional_call(layer, {"key": k}, (torch.ones(batch, width),)))(key)


def test_one_dropout_layer_used_twice_draws_two_masks() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([self.drop(x), self.drop(x)])

    net, x = Net(Twice, torch.float32, CPU, torch.ones(1, 50)), torch.ones(4, 50)
    first, second = net.train({}, torch.tensor(3), x)
    assert not torch.equal(first, second)
    assert torch.equal(net.train({}, torch.tensor(3), x)[0], first)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_right_share_and_scales_it(p: float) -> None:
    made = masks(KeyedDropout(p, 0), rng.bits(torch.tensor(3), torch.arange(200)))
    kept = made != 0
    torch.testing.assert_close(made[kept], torch.full((int(kept.sum()),), 1 / (1 - p)))
    n = kept.numel()
    assert abs(float(kept.double().mean()) - (1 - p)) < 4 * (p * (1 - p) / n) ** 0.5
    for axis in ((1, 2), (0, 2), (0, 1)):  # no lane, row or column is favoured
        counts = kept.sum(axis).double().numpy()
        cells = n / len(counts)
        z = (counts - cells * (1 - p)) / (cells * p * (1 - p)) ** 0.5
        assert np.abs(z).max() < 4.5


def test_dropout_of_nothing_and_of_everything() -> None:
    key = torch.arange(4)
    assert bool((masks(KeyedDropout(0.0, 0), key) == 1).all())
    assert bool((masks(KeyedDropout(1.0, 0), key) == 0).all())


def test_dropout_masks_differ_by_step_client_round_lane_and_layer_and_nothing_else() -> None:
    settings = [Setting(model="mlp", clients=10, local_steps=3, seed=seed) for seed in (1, 2)]
    program = Program(settings, CPU)

    def drawn(round: int, client: int, layer: int) -> list[torch.Tensor]:
        key = drawn_at(program.clients, program.lanes, round, torch.tensor([client] * 2), settings[0]).key  # [L, K]
        return list(masks(KeyedDropout(0.5, layer), key.flatten()))

    made = [m for word in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)) for m in drawn(*word)]
    assert len(made) == 24
    for i, a in enumerate(made):
        for b in made[:i]:
            both = torch.bincount(2 * (a > 0).long().flatten() + (b > 0).long().flatten(), minlength=4)
            assert stats.chisquare(both.numpy()).pvalue > 1e-5  # a quarter each: different, and independent
    assert all(torch.equal(a, b) for a, b in zip(drawn(0, 0, 0), made, strict=False))


def test_layers_of_one_model_have_masks_of_their_own_and_evaluation_has_none() -> None:
    net = Net(lambda: two_dropouts((50,), 10), torch.float32, CPU, torch.zeros(1, 50))
    key = rng.bits(torch.tensor(1), torch.arange(100))
    ones = torch.ones(20, 50)
    made = vmap(lambda k: net.train({}, k, ones))(key)
    assert set(made.unique().tolist()) == {0.0, 4.0}
    n = made.numel()
    assert abs(float((made > 0).double().mean()) - 0.25) < 4 * (0.1875 / n) ** 0.5
    assert torch.equal(net.evaluate({}, ones), ones)


def test_dropout_of_short_batches_does_not_depend_on_the_padding() -> None:
    key = torch.arange(5)
    layer = KeyedDropout(0.5, 2)
    assert torch.equal(masks(layer, key, batch=20)[:, :7], masks(layer, key, batch=7))


def test_training_with_dropout_is_not_training_without() -> None:
    with_it, without = (finish([Setting(model=f"mlp:dropout={p}", rounds=1)])[1] for p in (0.5, 0))
    assert not torch.equal(with_it.state.model["1.weight"], without.state.model["1.weight"])


# Any module


def plain_leg(program: Program, lane: int, round: int, client: int) -> dict[str, torch.Tensor]:
    """The first leg of one lane in plain PyTorch, on the same minibatches."""
    setting, lanes = program.setting, program.lanes
    drawn = drawn_at(program.clients, lanes, round, torch.tensor([client] * len(lanes.seed)), setting)
    module = program.net.build().to(program.net.dtype).train()
    init = program.net.init(program.seeds)
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(init[name][lane])
    optimizer = torch.optim.SGD(module.parameters(), lr=float(lanes.lr[lane]))
    for places, weight in zip(drawn.places[lane], drawn.weight[lane], strict=True):
        at = places[weight > 0]
        optimizer.zero_grad()
        cross_entropy(module(program.clients.x[at]), program.clients.y[at]).backward()
        optimizer.step()
    return {name: p.detach() for name, p in module.named_parameters()}


def leg_is_plain(model: str) -> bool:
    """Two lanes with short batches and reshuffles; each must be what plain PyTorch makes of it."""
    common = {"model": model, "clients": 50, "local_steps": 5, "rounds": 2, "dtype": "float64"}
    program = Program([Setting(**common, seed=seed, lr=0.1 * seed) for seed in (1, 2)], CPU)
    made = sites_of(program).train(program.net.init(program.seeds), Cohort(torch.tensor([4, 4]))).x
    return all(
        torch.allclose(made[name][lane], leaf, rtol=1e-10, atol=1e-12)
        for lane in (0, 1)
        for name, leaf in plain_leg(program, lane, 0, 4).items()
    )


USERS = [
    "user_modules:tiny",
    "user_modules:tiny:width=3",
    "user_modules:conv",
    "user_modules:tied",
    "user_modules:embedded",
]


@pytest.mark.parametrize("model", USERS)
def test_any_module_trains_on_lanes_as_in_plain_pytorch(model: str) -> None:
    assert leg_is_plain(model)


@pytest.mark.parametrize("model", USERS)
@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_any_module_runs_end_to_end(model: str, algorithm: str, tmp_path: Path) -> None:
    setting = Setting(model=model, algorithm=algorithm, rounds=2, eval_every=1, clip=1.0)
    (found,) = baton.run(setting, tmp_path)
    assert found.complete
    assert found.diverged is None
    loss = found.metrics["test_loss"]
    assert loss[-1] < loss[0]


def test_names_of_the_users_own_stand_where_registered_names_do(tmp_path: Path) -> None:
    setting = Setting(
        dataset="user_modules:blobs:spread=0.2",
        model="user_modules:tiny:width=4",
        partition="user_modules:by_label:drop=2",
        algorithm="user_modules:reversed_sequential:skip=1",
        schedule="user_modules:round_robin:stride=2",
        clients=3,
        rounds=3,
        eval_every=1,
    )
    (found,) = baton.run(setting, tmp_path)
    assert found.complete
    assert np.isfinite(found.metrics["test_loss"]).all()
    program = Program([setting], CPU)
    assert program.order(1).tolist() == [[2, 0, 1]]
    assert (program.clients.start.diff(dim=1)).tolist() == [[20, 20, 0]]


def test_labelled_data_that_comes_with_its_clients_can_be_split_by_nature() -> None:
    setting = Setting(dataset="user_modules:blobs", partition="natural", clients=4)
    program = Program([setting], CPU)
    assert program.clients.samples.tolist() == list(range(60))
    assert program.clients.start.tolist() == [[0, 15, 30, 45, 60]]


def test_batch_norm_is_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match="BatchNorm1d") as refused:
        Program([Setting(model="user_modules:batch_normed")], CPU)
    assert "\n" not in str(refused.value)
    assert "'1'" in str(refused.value)  # which layer


def test_batch_norm_without_running_statistics_is_refused_or_right() -> None:
    """A short batch is padded: statistics over the padding would be quietly wrong."""
    try:
        right = leg_is_plain("user_modules:batch_normed:track=false")
    except BadInput:
        right = True
    assert right


@pytest.mark.parametrize("model", ["channel_dropout", "conv_dropout", "alpha_dropout", "functional_dropout"])
def test_dropout_that_cannot_be_keyed_is_refused_in_one_line(model: str) -> None:
    with pytest.raises(BadInput) as refused:
        finish([Setting(model=f"user_modules:{model}", rounds=1)])
    assert "\n" not in str(refused.value)


def test_a_module_is_initialised_from_its_lanes_seed_alone() -> None:
    net = Net(lambda: nn.Linear(3, 2), torch.float64, CPU, torch.zeros(1, 3, dtype=torch.float64))
    three = net.init([5, 6, 5])
    assert torch.equal(three["weight"][0], three["weight"][2])
    assert not torch.equal(three["weight"][0], three["weight"][1])
    torch.manual_seed(99)
    assert torch.equal(net.init([6])["weight"][0], three["weight"][1])


ALWAYS = (
    "sequential",
    "parallel",
    "scaffold",
    "fednova",
    "fedadam:server_lr=0.01",
    "switch:after=2",
    "pairgrab",
    "ssl:cut=1",
)


@pytest.mark.parametrize("spec", cases(examples("algorithm"), ALWAYS))
def test_every_algorithm_takes_momentum_a_rate_that_changes_and_epochs(spec: str) -> None:
    """Of two lanes each is as it is alone, and neither is what it would be without them."""
    base = {"clients": 8, "participants": 4, "rounds": 3, "eval_every": 3, "lr": 0.05, "model": "mlp:hidden=6"}
    base |= {"dtype": "float64", "partition": "dirichlet:alpha=0.5", "algorithm": spec, "batch_size": 64}
    more = [{"lr_schedule": "cosine", "momentum": 0.5}, {"lr_schedule": "step:every=1,factor=0.5", "momentum": 0.9}]
    length = {"local_steps": 2} if "passes" in spec else {"epochs": 1}
    settings = [Setting(**base, **length, **each, seed=seed) for seed, each in enumerate(more)]
    _, together = finish(settings)
    _, plain = finish([Setting(**base, **length, seed=1)])
    for lane, setting in enumerate(settings):
        assert_same_lane(finish([setting])[1], together, lane, 1e-9)
    assert any(not torch.equal(leaf[1], plain.state.model[name][0]) for name, leaf in together.state.model.items())
