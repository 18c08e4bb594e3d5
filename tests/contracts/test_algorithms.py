"""Every algorithm: pure, lane by lane, still at lr -> 0; sequential hands over, parallel averages."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import baton
from baton import datasets
from baton.algorithms import ALGORITHMS, Algorithm, Cohort, Now, Reply, Sites, State, build
from baton.clients import owners
from baton.lanes import Params
from baton.seam import Facts
from baton.setting import Setting
from baton.simulate.engine import Program, advance, first
from baton.simulate.kept import Kept, laid_out
from baton.simulate.rounds import ahead
from baton.simulate.simulation import Simulation
from baton.store import History, Snapshot
from baton.store.snapshot import named
from contracts.examples import BAD, CPU, cases, examples, finish, missing, refused, stages

EVERY = pytest.mark.parametrize("spec", cases(examples("algorithm")))
WORLDS = {
    "digits": {"model": "mlp:hidden=6", "clients": 8, "partition": "dirichlet:alpha=0.5", "dtype": "float64"},
    "quadratics": {"dataset": "quadratic_random:dim=3,sigma=1", "clients": 8},
}
SPLIT = ("ssl", "splitfed")  # a quadratic has no layers to cut between
EVERYWHERE = pytest.mark.parametrize(
    ("spec", "world"),
    [
        *cases([(s, "digits") for s in examples("algorithm")]),
        *((s, "quadratics") for s in examples("algorithm") if not s.startswith(SPLIT)),
    ],
)


def algorithm(spec: str) -> Algorithm:
    return build(spec, torch.float64)


def copied(state: State) -> State:
    return State(*({name: leaf.clone() for name, leaf in drawer.items()} for drawer in state))


def leaves(at: Snapshot) -> Params:
    """All three drawers."""
    return named(at.state, at.clients)


def round_of(p: Program, state: State, number: int = 0, tables: Params | None = None) -> State:
    """One round, with nothing drawn ahead."""
    order, kept = p.order(number), Kept(laid_out(tables or {}, None))
    made = p.algorithm.round(state, Cohort.whole(order), Simulation(p, p.now(number, p.rate(number)), order, kept=kept))
    kept.settle(None)
    return made


def program(spec: str, world: str = "digits", lanes: int = 3, **more: object) -> Program:
    base = {
        **WORLDS[world],
        "algorithm": spec,
        "participants": 3,
        "local_steps": 2,
        "rounds": 4,
        "eval_every": 2,
        **more,
    }
    return Program([Setting(**{"lr": 0.02 * (1 + i), "seed": i, **base}) for i in range(lanes)], CPU)


def test_every_name_has_an_example() -> None:
    assert missing("algorithm") == []


@pytest.mark.parametrize("spec", BAD["algorithm"])
def test_bad_options_are_refused_in_one_line(spec: str) -> None:
    line = refused({"algorithm": spec})
    assert line.startswith("algorithm: ")
    assert "\n" not in line


@EVERYWHERE
def test_a_round_is_pure(spec: str, world: str) -> None:
    """It sees its arguments and returns new state; only what clients keep is written, and only by their rows."""
    p = program(spec, world)
    at = first(p)
    given, tables = at.state, laid_out({name: leaf.clone() for name, leaf in at.clients.items()}, None)
    before, data = copied(given), [t.clone() for t in p.clients if isinstance(t, Tensor)]
    one = round_of(p, given, tables=at.clients)
    two = round_of(p, given, tables=tables)
    for drawer, held, again, old in zip(one, given, two, before, strict=True):
        assert drawer.keys() == held.keys()
        for name, leaf in held.items():
            assert torch.equal(leaf, old[name])
            assert torch.equal(drawer[name], again[name])
            assert drawer[name].shape == leaf.shape
            assert drawer[name].dtype == leaf.dtype
    assert not all(torch.equal(one.model[name], leaf) for name, leaf in given.model.items())
    assert all(torch.equal(a, b) for a, b in zip((t for t in p.clients if isinstance(t, Tensor)), data, strict=True))
    for name, table in at.clients.items():
        assert torch.equal(table, tables[name])
        touched = (table != 0).flatten(2).any(2)  # [L, M]; nobody kept anything at first
        took_part = torch.zeros_like(touched).scatter(1, p.order(0), True)
        assert not (touched & ~took_part).any()


@EVERY
def test_the_model_of_a_fresh_state_is_the_initial_model(spec: str) -> None:
    p = program(spec)
    x = p.net.init(p.seeds)
    model = first(p).state.model
    assert model.keys() == x.keys()
    assert all(torch.equal(model[name], leaf) for name, leaf in x.items())


@EVERY
def test_rounds_go_on_from_any_snapshot(spec: str) -> None:
    """All there is between rounds is in the state."""
    p = program(spec)
    lanes = [Setting(**{**p.setting.model_dump(), "seed": seed}) for seed in (0, 1)]
    _, seen = stages(lanes)
    *_, last = advance(Program(lanes, CPU), seen[2]._replace(history=History()))
    assert last.round == 4
    for name, leaf in leaves(seen[-1]).items():
        assert torch.equal(leaves(last)[name], leaf)


@EVERYWHERE
def test_a_lane_does_not_see_its_neighbours(spec: str, world: str) -> None:
    common = {**WORLDS[world], "algorithm": spec, "participants": 3, "local_steps": 2, "rounds": 4}
    settings = [Setting(**common, lr=0.02 * (1 + i), seed=i, clip=float(i % 2)) for i in range(5)]
    _, whole = finish(settings)
    for lane in (0, 3, 4):
        _, alone = finish([settings[lane]])
        for name, leaf in leaves(alone).items():
            torch.testing.assert_close(leaves(whole)[name][lane], leaf[0], rtol=1e-10, atol=1e-12)


@EVERYWHERE
def test_without_a_learning_rate_nothing_moves(spec: str, world: str) -> None:
    """Not by averaging either, over many rounds: weights that do not sum to one would show."""
    p = program(spec, world, lanes=2, lr=1e-300, clip=1.0, weight_decay=0.1, participants=7, rounds=10, eval_every=10)
    _, seen = stages([Setting(**{**p.setting.model_dump(), "seed": seed}) for seed in (0, 1)])
    for name, leaf in seen[0].state.model.items():
        torch.testing.assert_close(seen[-1].state.model[name], leaf, rtol=1e-13, atol=1e-13)


@EVERYWHERE
def test_the_same_run_twice_gives_the_same_bytes(spec: str, world: str, tmp_path: Path) -> None:
    settings = [
        Setting(**WORLDS[world], algorithm=spec, participants=2, rounds=3, eval_every=1, seed=seed, lr=0.05)
        for seed in (1, 2)
    ]
    found = []
    for name in ("a", "b"):
        baton.run(settings, tmp_path / name)
        files = sorted((tmp_path / name).glob("[0-9a-f]*/*"))
        found.append({str(f.relative_to(tmp_path / name)): f.read_bytes() for f in files})
    assert len(found[0]) == 8  # two runs of setting.json, metrics.csv, state.safetensors, SHA256SUMS
    assert found[0] == found[1]


# Sequential against parallel


@pytest.mark.parametrize("spec", [s for s in examples("algorithm") if s.startswith("parallel") and "server" not in s])
@pytest.mark.parametrize("world", WORLDS)
def test_with_one_participant_sequential_is_parallel(spec: str, world: str) -> None:
    one, other = (
        finish([Setting(**WORLDS[world], algorithm=name, participants=1, rounds=5, seed=s, lr=0.05) for s in (1, 2)])[1]
        for name in ("sequential", spec)
    )
    for name, leaf in one.state.model.items():
        torch.testing.assert_close(other.state.model[name], leaf, rtol=1e-13, atol=1e-13)


# Sequential


def reshuffled_sgd(p: Program, lane: int, x: Params, rounds: int) -> Params:
    """SGD with random reshuffling in plain PyTorch: one step on each client's own loss, in the round's order."""
    data = datasets.load(p.setting.dataset, p.setting.clients)
    owner = torch.from_numpy(owners(p.setting.dataset, p.setting.partition, p.setting.clients).copy())
    module = p.net.build().to(p.net.dtype)
    module.load_state_dict({name: leaf[lane] for name, leaf in x.items()})
    optimizer = torch.optim.SGD(module.parameters(), lr=float(p.lanes.lr[lane]))
    for round in range(rounds):
        for client in p.order(round)[lane].tolist():
            mine = owner == client
            output = module(data.x[mine].to(p.net.dtype))
            optimizer.zero_grad()
            (cross_entropy(output, data.y[mine]) if data.classes else output.mean()).backward()
            optimizer.step()
    return {name: p.detach() for name, p in module.named_parameters()}


Round = Callable[[State, Cohort, Sites], State]


def is_random_reshuffling(round: Round, world: str) -> bool:
    """K = 1, S = M, exact gradients (a batch holds all of a client): whether rounds are those of the plain loop."""
    base = {
        "digits": {"model": "logistic", "clients": 6, "partition": "exdir:C=2,alpha=10", "dtype": "float64"},
        "quadratics": {"dataset": "quadratic_random:dim=3", "clients": 6},
    }[world]
    p = Program([Setting(**base, local_steps=1, batch_size=2000, seed=seed, lr=0.05) for seed in (1, 2)], CPU)
    x = begin = p.net.init(p.seeds)
    for number in range(3):
        order = p.order(number)
        sites = Simulation(p, p.now(number, p.rate(number)), order)
        x = round(State(x), Cohort.whole(order), sites).model
    return all(
        torch.allclose(x[name][lane], leaf, rtol=1e-12, atol=1e-12)
        for lane in (0, 1)
        for name, leaf in reshuffled_sgd(p, lane, begin, 3).items()
    )


@pytest.mark.parametrize("world", WORLDS)
def test_sequential_is_sgd_with_random_reshuffling(world: str) -> None:
    assert is_random_reshuffling(algorithm("sequential").round, world)


def forgets(dropped: int) -> Round:
    """Sequential, but the client at one place starts from what its predecessor was given, not from what it made."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        given = x = state.model
        for place, client in enumerate(order):
            start = given if place == dropped else x
            given, x = start, sites.train(start, client).x
        return State(x)

    return round


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("dropped", [1, 3, 5])
def test_a_dropped_hand_over_is_noticed(world: str, dropped: int) -> None:
    assert not is_random_reshuffling(forgets(dropped), world)


@pytest.mark.parametrize("world", WORLDS)
def test_the_wrong_order_a_skipped_client_and_a_lost_round_are_noticed(world: str) -> None:
    right = algorithm("sequential").round
    assert is_random_reshuffling(forgets(-1), world)  # what forgets nothing is right
    assert not is_random_reshuffling(lambda x, order, sites: right(x, order[::-1], sites), world)
    assert not is_random_reshuffling(lambda x, order, sites: right(x, order[:-1], sites), world)
    assert not is_random_reshuffling(lambda x, _order, _sites: x, world)


class Told:
    """Sites of known answers: client m turns x into 2 x + m, holds m samples, and takes one step."""

    now = Now(10, 3, 1, 5, 0, torch.full((2,), 0.5, dtype=torch.float64))

    def train(self, x: Params, clients: Cohort, *, pull=None, anchor=None, shift=None, sent=None) -> Reply:  # noqa: ARG002
        index = clients.index
        wide = {n: leaf.unsqueeze(1) if leaf.dim() - 1 < index.dim() else leaf for n, leaf in x.items()}
        made = {n: 2 * leaf + index.unsqueeze(-1).to(leaf.dtype) for n, leaf in wide.items()}
        ones = torch.ones_like(index)
        return Reply(made, lambda: Facts(index, ones, ones.double()))

    def home(self, x: Params) -> Params:
        return x

    def sides(self, x: Params) -> tuple[Params, Params]:
        return {name: leaf for name, leaf in x.items() if name != "s"}, {n: leaf for n, leaf in x.items() if n == "s"}


ORDER = torch.tensor([[1, 2, 4], [3, 0, 7]])
X = {"w": torch.tensor([[0.1, 1.0], [-3.0, 1e-3]], dtype=torch.float64)}


def told(spec: str, x: Params) -> Params:
    return algorithm(spec).round(State(x), Cohort.whole(ORDER), Told()).model


def test_sequential_hands_each_result_to_the_next() -> None:
    made = told("sequential", X)["w"]
    added = torch.tensor([1 * 4 + 2 * 2 + 4, 3 * 4 + 0 * 2 + 7], dtype=torch.float64).view(2, 1)
    torch.testing.assert_close(made, 8 * X["w"] + added, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(
    ("spec", "weights"),
    [
        ("parallel", [[1 / 3, 1 / 3, 1 / 3], [1 / 3, 1 / 3, 1 / 3]]),
        ("parallel:weighting=size", [[1 / 7, 2 / 7, 4 / 7], [0.3, 0.0, 0.7]]),
    ],
)
@pytest.mark.parametrize("server_lr", [1.0, 0.5, 1.7])
def test_parallel_averages_and_the_server_moves_that_way(
    spec: str, weights: list[list[float]], server_lr: float
) -> None:
    both = f"{spec}{',' if ':' in spec else ':'}server_lr={server_lr}"
    made = told(both, X)["w"]
    mean = 2 * X["w"] + (torch.tensor(weights, dtype=torch.float64) * ORDER).sum(1, keepdim=True)
    torch.testing.assert_close(made, X["w"] + server_lr * (mean - X["w"]), rtol=1e-14, atol=1e-14)


def test_splitfed_two_trains_one_server_side_client_after_client() -> None:
    x = {"w": X["w"], "s": 3 + X["w"]}
    made = told("splitfed:cut=w,version=2", x)
    averaged = told("parallel", X)
    handed_on = told("sequential", {"s": x["s"]})
    torch.testing.assert_close(made, averaged | handed_on, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("spec", [spec for spec in examples("algorithm") if not build(spec).pools])
def test_participants_without_any_sample_change_nothing(spec: str) -> None:
    """Neither to NaN, where all weights are zero, nor by weight decay."""
    model = "mlp:hidden=6" if spec.startswith(SPLIT) else "logistic"
    partition = "dirichlet:alpha=0.01,min_samples=0"
    setting = Setting(algorithm=spec, model=model, clients=40, participants=1, partition=partition, weight_decay=0.1)
    p = Program([setting], CPU)
    held = p.clients.start.diff(dim=1)[0]
    empty = int(torch.argmin(held))
    assert int(held[empty]) == 0
    at = first(p)
    order = torch.tensor([[empty]])
    kept = Kept(laid_out(at.clients, None))
    made = p.algorithm.round(at.state, Cohort.whole(order), Simulation(p, p.now(0, p.rate(0)), order, kept=kept))
    kept.settle(None)
    assert all(torch.equal(made.model[name], leaf) for name, leaf in at.state.model.items())
    assert all(not leaf.any() for leaf in at.clients.values())


# --- rounds that are aborted

PERIODS = {  # with what happens every so many rounds, in the middle of six
    "amplified": "amplified:every=3,server_lr=1.5",
    "amplified_scaffold": "amplified_scaffold:every=3,server_lr=1.5",
    "feddc": "feddc:every=3,swap=2",
    "fedseqinter": "fedseqinter:groups=2,every=3",
    "fedseq": "fedseq:groups=2",
    "switch": "switch:first=feddyn,then=scaffold,after=3",
}


def followed(
    p: Program, aborted: int | None = None, losing: Program | None = None
) -> tuple[list[State], list[Params], list[list[int]]]:
    """(states, what clients keep, orders) after each round of one lane; one is lost whole, or else never begun."""
    at = first(p)
    state, diverged, tables, train = at.state, at.diverged, laid_out(at.clients, None), ahead(p)
    lose = None if losing is None else ahead(losing)
    states, kept, orders = [state], [{name: leaf.clone() for name, leaf in tables.items()}], list[list[int]]()
    for round in range(p.setting.rounds):
        go = lose if round == aborted else train
        if go is not None:
            order, state, diverged = go(round, state, tables, diverged)
            orders.append(order[0].tolist())
        states.append(state)
        kept.append({name: leaf.clone() for name, leaf in tables.items()})
    return states, kept, orders


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "pooled"])
def test_an_aborted_round_is_as_if_it_had_not_been(name: str) -> None:
    """Its drawers are as they were, and what follows is as in a run that never began it."""
    spec = PERIODS.get(name) or next(spec for spec in examples("algorithm") if spec.partition(":")[0] == name)
    base = {**WORLDS["digits"], "algorithm": spec, "clients": 6, "participants": 3, "local_steps": 2, "rounds": 6}
    lossy = {"on_failure": "abort", "model": "mlp:hidden=4" if name in SPLIT else "logistic"}
    plain, some, every = (
        Program([Setting(**{**base, **lossy, "failures": each})], CPU)
        for each in ("none", "share:p=1e-12", "share:p=1.0")
    )
    for round in range(6):
        states, kept, orders = followed(some, round, every)
        before, after = (*states[round], kept[round]), (*states[round + 1], kept[round + 1])
        assert all(torch.equal(one[n], leaf) for one, two in zip(before, after, strict=True) for n, leaf in two.items())
        assert all(len(set(order)) == 3 and set(order) <= set(range(6)) for order in orders)
        others, theirs, their_orders = followed(plain, round)
        assert [order for r, order in enumerate(orders) if r != round] == their_orders
        for drawer, wanted in zip((*states[-1], kept[-1]), (*others[-1], theirs[-1]), strict=True):
            for n, leaf in wanted.items():
                torch.testing.assert_close(drawer[n], leaf, rtol=1e-9, atol=1e-11)
