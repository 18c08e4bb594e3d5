"""A leg against plain PyTorch: clip_grad_norm_, torch.optim.SGD, and minibatches cut from shuffled passes."""

from functools import partial
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.nn.utils import clip_grad_norm_

from baton import datasets, models
from baton.clients import Batches, Clients, members
from baton.lanes import Lanes, norm
from baton.legs.base import Step
from baton.legs.plain import Plain, sgd
from baton.nn import Net
from baton.setting import Setting
from baton.simulate.engine import Program
from contracts.examples import CPU
from steps import TERMS, by_torch, cut_short, drawn_at, step_of, with_terms

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


# Steps


@given(
    scale=st.lists(st.sampled_from([0.0, 1e-9, 1e-3, 1.0, 1e3]), min_size=3, max_size=3),
    clip=st.lists(st.sampled_from([0.0, 1e-4, 0.5, 2.0, 1e6]), min_size=3, max_size=3),
    decay=st.lists(st.sampled_from([0.0, 1e-4, 0.3]), min_size=3, max_size=3),
    lr=st.lists(st.sampled_from([0.0, 1e-3, 0.1, 2.0]), min_size=3, max_size=3),
    momentum=st.none() | st.lists(st.sampled_from([0.0, 0.5, 0.99]), min_size=3, max_size=3),
    pull=st.none() | st.lists(st.sampled_from([0.0, 1e-3, 0.4]), min_size=3, max_size=3),
    shifted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_steps_are_clip_grad_norm_then_sgd(
    scale: list[float],
    clip: list[float],
    decay: list[float],
    lr: list[float],
    momentum: list[float] | None,
    pull: list[float] | None,
    shifted: bool,
    seed: int,
) -> None:
    draw = torch.Generator().manual_seed(seed)
    wide = partial(torch.tensor, dtype=torch.float64)
    shapes = {"w": (4, 5), "b": (4,), "s": ()}
    x, anchor, shift, *slopes = (
        {n: torch.randn(3, *s, generator=draw, dtype=torch.float64) for n, s in shapes.items()} for _ in range(6)
    )
    slopes = [{n: leaf * wide(scale).view(-1, *[1] * (leaf.dim() - 1)) for n, leaf in g.items()} for g in slopes]
    step = Step(*(wide(v) for v in (lr, clip, decay)), *(None if v is None else wide(v) for v in (momentum, pull)))
    step = step._replace(anchor=anchor, shift=shift if shifted else None)
    made, velocity = x, None
    for g in slopes:
        made, velocity = sgd(made, g, step, norm(g), velocity)
        assert (velocity is None) is (momentum is None)
    for lane in range(3):
        weights = {n: leaf[lane].clone().requires_grad_() for n, leaf in x.items()}
        speed = momentum[lane] if momentum else 0.0
        optimizer = torch.optim.SGD(weights.values(), lr=lr[lane], momentum=speed, weight_decay=decay[lane])
        for g in slopes:
            for n, w in weights.items():
                w.grad = g[n][lane].clone()
            if clip[lane] > 0:
                clip_grad_norm_(weights.values(), clip[lane])
            for n, w in weights.items():
                w.grad += (pull[lane] if pull else 0.0) * (w.detach() - anchor[n][lane]) + shifted * shift[n][lane]
            optimizer.step()
        for n, w in weights.items():
            torch.testing.assert_close(made[n][lane], w.detach(), rtol=1e-12, atol=1e-12)


# Whole legs


LANES = [  # clip 0.4 lies between the gradients' norms, 100 above and 0.01 below all of them
    {"lr": 0.1, "clip": 0.0, "weight_decay": 0.0, "seed": 1, "partition": "iid"},
    {"lr": 0.5, "clip": 0.4, "weight_decay": 1e-4, "seed": 2, "partition": "exdir:C=2,alpha=10"},
    {"lr": 0.5, "clip": 100.0, "weight_decay": 0.1, "seed": 3, "partition": "exdir:C=2,alpha=10,seed=5"},
    {"lr": 1.0, "clip": 0.01, "weight_decay": 0.0, "seed": 4, "partition": "dirichlet:alpha=0.5"},
]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("model", ["logistic", "mlp:dropout=0,hidden=16"])
@pytest.mark.parametrize(
    ("steps", "batch", "sampling"),
    [(3, 20, "shuffle"), (12, 20, "shuffle"), (4, 2000, "shuffle"), (5, 16, "replacement")],
    ids=["inside one pass", "short batches and reshuffles", "batch larger than client", "replacement"],
)
def test_legs_are_those_of_plain_pytorch(dtype: str, model: str, steps: int, batch: int, sampling: str) -> None:
    common = {"model": model, "clients": 20, "local_steps": steps, "batch_size": batch, "sampling": sampling}
    program = Program([Setting(**common, dtype=dtype, **lane) for lane in LANES], CPU)
    x = program.net.init(program.seeds)
    norms: list[list[float]] = []
    for round, client in ((0, [0, 5, 11, 19]), (3, [7, 7, 7, 7])):
        chosen = torch.tensor(client)
        drawn = drawn_at(program.clients, program.lanes, round, chosen, program.setting)
        step = step_of(program.lanes, drawn)
        trained = program.legs.train(x, step, drawn)
        for lane in range(len(LANES)):
            plain, lengths = by_torch(program.net, program.clients, x, drawn, lane, step)
            norms.append(lengths)
            for name, leaf in plain.items():
                torch.testing.assert_close(trained[name][lane], leaf, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        x = trained
    clipped = [[n > (lane["clip"] or np.inf) for n in found] for lane, found in zip(LANES * 2, norms, strict=True)]
    assert not any(clipped[0] + clipped[2])
    assert all(clipped[3])
    assert any(clipped[1] + clipped[5])


def test_the_clip_bites_on_some_steps_of_a_leg_and_not_on_others() -> None:
    setting = Setting(partition="exdir:C=1,alpha=10", lr=0.5, clip=0.5, local_steps=30, dtype="float64")
    program = Program([setting], CPU)
    client, x = torch.tensor([3]), program.net.init([1])
    drawn = drawn_at(program.clients, program.lanes, 0, client, setting)
    step = step_of(program.lanes, drawn)
    trained = program.legs.train(x, step, drawn)
    plain, norms = by_torch(program.net, program.clients, x, drawn, 0, step)
    assert max(norms) > 0.5 > min(norms)
    for name, leaf in plain.items():
        torch.testing.assert_close(trained[name][0], leaf, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("few", [False, True], ids=["a lane each", "shared lanes"])
@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: "+".join(sorted(terms)))
def test_terms_are_what_is_added_to_torchs_gradient(terms: set[str], few: bool) -> None:
    """Four legs, the second at a client without samples; where lanes are shared, of two models and one anchor."""
    data, lanes, client = table([8, 0, 30, 12]), lanes_of([1, 2, 3, 4]), torch.arange(4)
    lanes = lanes._replace(clip=torch.tensor([0.0, 0.5, 0.05, 10.0], dtype=torch.float64))
    net = Net(models.factory("mlp:dropout=0,hidden=5", (64,), 10), torch.float64, CPU, data.x[:1])
    x = net.init([1, 2] if few else [1, 2, 3, 4])
    drawn = drawn_at(data, lanes, 0, client, Setting(local_steps=5, batch_size=6))
    step = with_terms(step_of(lanes, drawn), x, terms, 1 if few else 0, 2 if few else 0)
    drawn = cut_short(drawn, step)
    given = {name: leaf.clone() for name, leaf in x.items()}
    made = Plain(net, datasets.load("digits", 1), data).train(x, step, drawn)
    for leg in range(4):
        wanted, norms = by_torch(net, data, x, drawn, leg, step)
        assert len(norms) == (0 if leg == 1 else leg + 1 if step.ragged else 5)
        for name, leaf in wanted.items():
            torch.testing.assert_close(made[name][leg], leaf, rtol=1e-12, atol=1e-12)
    for name, leaf in x.items():
        assert torch.equal(leaf, given[name])
        assert torch.equal(made[name][1], leaf[0 if few else 1])


# Minibatches


def table(sizes: list[int], samples: int | None = None) -> Clients:
    """One partition with these sizes, the pool's samples dealt out in a scrambled order."""
    total = sum(sizes) if samples is None else samples
    scrambled = torch.from_numpy(np.random.default_rng(0).permutation(total))
    start = torch.tensor(np.concatenate([[0], np.cumsum(sizes)])).unsqueeze(0)
    x = torch.linspace(-1, 1, max(total, 1), dtype=torch.float64).view(-1, 1).expand(-1, 64)
    y = torch.arange(max(total, 1)) % 10
    return Clients(x, y, scrambled, start, min(sizes), max(sizes), x[None], y[None], torch.tensor([0]))


def lanes_of(seeds: list[int]) -> Lanes:
    count = len(seeds)
    full = [torch.full((count,), v, dtype=torch.float64) for v in (0.1, 0.0, 0.5, 0.0)]
    return Lanes(torch.tensor(seeds), *full, torch.zeros(count, dtype=torch.int64))


def drawn_lists(made: Batches, lane: int) -> list[list[int]]:
    """The samples of each step, padding left out."""
    return [p[w > 0].tolist() for p, w in zip(made.places[lane], made.weight[lane], strict=True)]


@given(
    sizes=st.lists(st.integers(0, 45), min_size=1, max_size=5).filter(any),
    steps=st.integers(1, 12),
    batch=st.integers(1, 60),
    round=st.integers(0, 500),
)
def test_a_pass_holds_every_sample_once_in_batches_of_b_and_a_rest(
    sizes: list[int], steps: int, batch: int, round: int
) -> None:
    data = table(sizes)
    client = torch.arange(len(sizes))
    made = drawn_at(data, lanes_of([9] * len(sizes)), round, client, Setting(local_steps=steps, batch_size=batch))
    for m, n in enumerate(sizes):
        own = set(data.samples[data.start[0, m] : data.start[0, m + 1]].tolist())
        cut = drawn_lists(made, m)
        assert len(cut) == steps
        one_pass = [batch] * (n // batch) + [n % batch] * (n % batch > 0)
        assert [len(c) for c in cut] == ((one_pass or [0]) * steps)[:steps]
        per_pass = max(len(one_pass), 1)
        for begin in range(0, steps, per_pass):
            seen = [s for c in cut[begin : begin + per_pass] for s in c]
            assert len(set(seen)) == len(seen)
            assert set(seen) <= own
            if begin + per_pass <= steps:
                assert set(seen) == own


def test_each_pass_and_each_visit_is_shuffled_afresh() -> None:
    data = table([30, 30])
    setting = Setting(local_steps=9, batch_size=10)  # three passes

    def visit(seed: int, round: int, client: int) -> list[tuple[int, ...]]:
        made = drawn_at(data, lanes_of([seed]), round, torch.tensor([client]), setting)
        flat = [s for c in drawn_lists(made, 0) for s in c]
        own = data.samples[30 * client : 30 * client + 30].tolist()
        return [tuple(own.index(s) for s in flat[i : i + 30]) for i in (0, 30, 60)]

    orders = [o for key in ((1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)) for o in visit(*key)]
    assert len(set(orders)) == 12
    assert visit(1, 0, 0) == orders[:3]


def test_orders_of_two_passes_are_uniform_and_independent_over_seeds() -> None:
    count = 20_000
    lanes, client = lanes_of(list(range(count))), torch.zeros(count, dtype=torch.int64)
    made = drawn_at(table([3]), lanes, 4, client, Setting(local_steps=6, batch_size=1))
    cells = {order: i for i, order in enumerate(permutations(range(3)))}
    counts = np.zeros((6, 6))
    for row in made.places[:, :, 0].tolist():
        counts[cells[tuple(row[:3])], cells[tuple(row[3:])]] += 1
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4
    assert stats.chi2_contingency(counts).pvalue > 1e-4


def test_batches_do_not_depend_on_how_large_other_clients_are() -> None:
    setting = Setting(local_steps=7, batch_size=20)
    small, large = table([6, 9], samples=5_000), table([6, 9, 4_000], samples=5_000)
    client = torch.tensor([0, 1])
    a, b = (drawn_at(data, lanes_of([3, 4]), 2, client, setting) for data in (small, large))
    for lane in (0, 1):
        assert drawn_lists(a, lane) == drawn_lists(b, lane)
        assert len(drawn_lists(a, lane)[0]) == [6, 9][lane]


def test_a_client_of_many_samples_draws_without_repeats() -> None:
    setting = Setting(local_steps=10, batch_size=20)
    made = drawn_at(table([100_000]), lanes_of(list(range(200))), 0, torch.zeros(200, dtype=torch.int64), setting)
    flat = made.places.flatten(1)
    assert bool((made.weight == 1).all())
    assert bool((flat.sort(1).values.diff(dim=1) > 0).all())
    assert stats.chisquare(torch.bincount(flat.flatten() // 5_000, minlength=20).numpy()).pvalue > 1e-4


def test_replacement_draws_uniformly_among_the_clients_own_samples() -> None:
    count = 3_000
    data, lanes = table([4, 7, 1]), lanes_of(list(range(count)))
    setting = Setting(local_steps=3, batch_size=5, sampling="replacement")
    for m, n in enumerate((4, 7, 1)):
        made = drawn_at(data, lanes, 6, torch.full((count,), m), setting)
        own = data.samples[data.start[0, m] : data.start[0, m + 1]]
        assert bool((made.weight == 1).all())
        assert made.places.shape == (count, 3, 5)
        item = torch.searchsorted(own.sort().values, made.places)
        assert torch.equal(own.sort().values[item.clamp(max=n - 1)], made.places)
        if n > 1:
            assert stats.chisquare(torch.bincount(item.flatten(), minlength=n).numpy()).pvalue > 1e-4
            flat = item.flatten(1)
            for i, j in pairwise(range(15)):
                pairs = torch.bincount(n * flat[:, i] + flat[:, j], minlength=n * n).view(n, n).numpy()
                assert stats.chi2_contingency(pairs).pvalue > 1e-4
    again = drawn_at(data, lanes, 7, torch.full((count,), 1), setting)
    before = drawn_at(data, lanes, 6, torch.full((count,), 1), setting)
    assert not torch.equal(again.places, before.places)


def test_step_keys_differ_by_step_round_client_and_seed() -> None:
    data, setting = table([5] * 10), Setting(local_steps=4, batch_size=2)
    lanes = lanes_of([s for s in range(10) for _ in range(10)])
    client = torch.arange(10).repeat(10)
    made = [drawn_at(data, lanes, round, client, setting).key for round in range(10)]
    assert torch.cat(made).unique().numel() == 10 * 10 * 10 * 4


@pytest.mark.parametrize("sampling", ["shuffle", "replacement"])
def test_a_client_without_samples_hands_the_model_on_unchanged(sampling: str) -> None:
    """Bit for bit, though weight decay is on; the other lanes of the same call do move."""
    data = table([8, 0, 8, 0])
    lanes = lanes_of([1, 2, 3])
    setting = Setting(local_steps=3, batch_size=4, sampling=sampling)
    net = Net(models.factory("logistic", (64,), 10), torch.float64, CPU, torch.zeros(1, 64, dtype=torch.float64))
    x = net.init([1, 2, 3])
    legs = Plain(net, datasets.load("digits", 1), data)
    drawn = drawn_at(data, lanes, 0, torch.tensor([1, 2, 3]), setting)
    made = legs.train(x, step_of(lanes, drawn), drawn)
    for name, leaf in x.items():
        assert torch.equal(made[name][0], leaf[0])
        assert not torch.equal(made[name][1], leaf[1])
        assert torch.equal(made[name][2], leaf[2])


@given(sizes=st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(any), seed=st.integers(0, 99))
def test_members_are_all_samples_of_the_chosen_clients(sizes: list[int], seed: int) -> None:
    data = table(sizes)
    pick = np.random.default_rng(seed)
    chosen = torch.tensor(np.stack([pick.permutation(len(sizes))[:2] for _ in range(3)]))
    places, weight = members(data, lanes_of([0, 1, 2]), chosen)
    for lane in range(3):
        own = [s for m in chosen[lane] for s in data.samples[data.start[0, m] : data.start[0, m + 1]].tolist()]
        assert places[lane][weight[lane]].tolist() == own
