"""Each site alone, and all data in one place: plain loops, the same bits as sequential with one client, no bytes."""

from pathlib import Path

import pytest
import torch

import baton
from baton import clients, datasets
from baton.clients import Batches
from baton.errors import BadInput
from baton.lanes import Params
from baton.ledger import Rates, seconds
from baton.measure import drift
from baton.setting import Setting
from baton.simulate import memory
from baton.simulate.books import traffic, ways
from baton.simulate.engine import Program, advance, first
from baton.sites.server import Server
from contracts.examples import CPU, finish, still

WORLD = {"model": "mlp:hidden=6,dropout=0", "clients": 5, "partition": "dirichlet:alpha=0.5", "rounds": 3, "lr": 0.1}
LENGTHS = [{"local_steps": 3}, {"epochs": 1}]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("spec", ["alone", "pooled"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_with_one_client_it_is_sequential(spec: str, dtype: str, length: dict[str, int]) -> None:
    """The same bits."""
    base = {**WORLD, "clients": 1, "partition": "iid", "dtype": dtype, "momentum": 0.3, **length}
    one, other = (finish([Setting(**base, algorithm=name, seed=s) for s in (1, 2)])[1] for name in (spec, "sequential"))
    for name, leaf in other.state.model.items():
        assert torch.equal(one.state.model[name], leaf)


def loop(p: Program, x: Params, batches: Batches, lane: int) -> Params:
    """One leg as torch takes it."""
    data = datasets.load(p.setting.dataset, p.setting.clients)
    module = p.net.build().to(p.net.dtype)
    module.load_state_dict(x)
    optimizer = torch.optim.SGD(module.parameters(), lr=float(p.lanes.lr[lane]))
    for at, weight in zip(batches.places[lane], batches.weight[lane], strict=True):
        if not weight.any():
            continue
        chosen = at[weight > 0]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(data.x[chosen].to(p.net.dtype)), data.y[chosen]).backward()
        optimizer.step()
    return {name: leaf.detach().clone() for name, leaf in module.named_parameters()}


@pytest.mark.parametrize("length", LENGTHS)
def test_alone_is_a_loop_at_each_client(length: dict[str, int]) -> None:
    s = Setting(**{**WORLD, **length, "dtype": "float64", "participants": 3, "algorithm": "alone"})
    p, last = finish([s])
    begun = {name: leaf[0] for name, leaf in p.net.init(p.seeds).items()}
    own = [begun] * 5
    for round in range(s.rounds):
        order = p.order(round)
        for m in order[0].tolist():
            own[m] = loop(p, own[m], p.draw(round, torch.tensor([[m]])), 0)
    models = p.algorithm.personal(last.state)
    for name, leaf in models.items():
        assert leaf.shape[:2] == (1, 5)
        for m in range(5):
            torch.testing.assert_close(leaf[0, m], own[m][name], rtol=1e-12, atol=1e-12)
        assert torch.equal(last.state.model[name][0], leaf[0, p.order(s.rounds - 1)[0, -1]])


@pytest.mark.parametrize("length", LENGTHS)
def test_pooled_is_a_loop_over_all_samples(length: dict[str, int]) -> None:
    s = Setting(**{**WORLD, **length, "dtype": "float64", "participants": 3, "algorithm": "pooled"})
    p, last = finish([s])
    x = {name: leaf[0] for name, leaf in p.net.init(p.seeds).items()}
    count = len(datasets.load("digits", 5).y)
    for round in range(s.rounds):
        batches = p.draw_pool(round)
        assert batches.places.shape[1] == (9 if s.local_steps else -(-count // s.batch_size))
        if s.epochs:
            assert batches.places[batches.weight > 0].sort().values.tolist() == list(range(count))
        x = loop(p, x, batches, 0)
    for name, leaf in x.items():
        torch.testing.assert_close(last.state.model[name][0], leaf, rtol=1e-12, atol=1e-12)


def test_who_holds_what_is_all_the_same_to_a_pool() -> None:
    lanes = [Setting(**{**WORLD, "partition": p}, algorithm="pooled") for p in ("iid", "exdir:C=2,alpha=1")]
    model = finish(lanes)[1].state.model
    assert all(torch.equal(leaf[0], leaf[1]) for leaf in model.values())


@pytest.mark.parametrize("spec", ["alone", "pooled"])
def test_nothing_is_sent_and_time_is_computing_alone(spec: str) -> None:
    p = Program([Setting(**WORLD, algorithm=spec)], CPU)
    assert all(not column.any() for column in traffic(p, range(3)).values())
    way = ways(p)[0]
    assert way["up"] == way["down"] == way["peer"] == way["messages"] == 0
    samples = clients.taken(clients.spans(p.clients, p.lanes, torch.arange(5).view(1, 5))[1], p.setting)[0]
    if spec == "alone":
        assert way["client_flops"] == 3 * p.net.flops() * int(samples.max())
    else:
        assert way["server_flops"] == 3 * p.net.flops() * 25 * 20  # S K steps of b
    assert seconds(way, Rates()) > 0


def test_a_second_visit_in_a_round_is_the_one_that_counts() -> None:
    s = Setting(**{**WORLD, "clients": 3}, algorithm="alone", schedule="test_visits:put_back")
    one, other = (finish([s])[1].state.server for _ in (1, 2))
    assert all(torch.equal(leaf, other[name]) for name, leaf in one.items())


@pytest.mark.parametrize("spec", ["alone", "pooled"])
def test_going_on_from_any_round_and_one_that_diverges(spec: str, tmp_path: Path) -> None:
    short, long = (Setting(**{**WORLD, "rounds": r, "eval_every": 2}, algorithm=spec) for r in (2, 4))
    baton.run(short, tmp_path / "a", quiet=True)
    baton.run(long, tmp_path / "a", quiet=True)  # from the shorter one's end
    baton.run(long, tmp_path / "b", quiet=True)
    one, other = ((tmp_path / n / long.run_id / "metrics.csv").read_bytes() for n in "ab")
    assert one == other
    wild = Setting(**{**WORLD, "lr": 1e30, "rounds": 4}, algorithm=spec, dtype="float32")
    calm = Setting(**{**WORLD, "rounds": 4}, algorithm=spec)
    p = Program([wild, calm], CPU)
    *_, last = (still(at) for at in advance(p, first(p)))
    assert (last.diverged >= 0).tolist() == [True, False]
    assert all(leaf.isfinite().all() for leaf in {**last.state.model, **last.state.server}.values())


def test_memory_counts_everybodys_models_and_the_long_leg() -> None:
    few, many = (Setting(**{**WORLD, "clients": m, "participants": 2}, algorithm="alone") for m in (5, 300))
    each = Program([few], CPU).net.size() * 4
    assert memory.per_lane([many], 1 << 50, CPU) - memory.per_lane([few], 1 << 50, CPU) > 295 * each
    long = Setting(**{**WORLD, "local_steps": 2000}, algorithm="pooled")
    assert memory.measured(long, CPU) / 3 < memory.per_lane([long], 1 << 50, CPU) < 3 * memory.measured(long, CPU)


def test_what_they_cannot_have_is_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match=r"failures: share:p=0\.1; pooled has no legs"):
        Setting(algorithm="pooled", failures="share:p=0.1")
    with pytest.raises(BadInput, match="on_failure: reroute; alone sends nothing elsewhere"):
        Setting(algorithm="alone", failures="share:p=0.1", on_failure="reroute:times=2")
    with pytest.raises(BadInput, match="sites keep theirs"):
        Server(Setting(algorithm="pooled"), datasets.load("digits", 10), post=list)
    with pytest.raises(BadInput, match="models of their own"):
        drift.measure(Setting(algorithm="alone"), [0], CPU)


# Sites as they are


def test_a_data_set_with_sites_of_its_own_uses_them() -> None:
    s = Setting(dataset="user_modules:uneven")
    assert (s.partition, s.clients, s.participants) == ("natural", 3, 3)
    assert clients.sizes(s).tolist() == [40, 15, 5]
    assert Setting(dataset="user_modules:uneven", partition="iid", clients=7).clients == 7
    assert finish([Setting(dataset="user_modules:uneven", epochs=1, rounds=2)])[1].round == 2
    assert Setting(dataset="user_modules:blobs", clients=4, partition="natural").clients == 4
    finish([Setting(dataset="user_modules:blobs", clients=4, rounds=1)])  # as many as are asked for
    assert (Setting().partition, Setting(dataset="quadratic_random", clients=6).clients) == ("iid", 6)


def test_other_numbers_of_sites_are_refused_in_one_line() -> None:
    for count in (2, 4):
        with pytest.raises(BadInput, match=f"clients: {count}; 'user_modules:uneven' has 3 sites of its own, so 3"):
            Program([Setting(dataset="user_modules:uneven", clients=count)], CPU)
