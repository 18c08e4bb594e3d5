"""Visits: a second one in a round draws anew; rates of a schedule; what clients keep, in C and in torch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, lr_scheduler

from baton import datasets, rng
from baton.algorithms import Algorithm, Cohort, Leg, Local, Now, Sites, State
from baton.algorithms import build as build_algorithm
from baton.clients import reached
from baton.lanes import Params
from baton.legs.base import Step, shift_of
from baton.legs.compiled import Native
from baton.legs.plain import Plain
from baton.nn.native import build
from baton.schedules import declares
from baton.setting import Setting
from baton.simulate.engine import Program, Snapshot, advance, first
from baton.sites.visit import Order, Own, visit
from baton.store.snapshot import named
from contracts.examples import CPU, finish
from steps import by_torch
from test_lanes import assert_same_lane

compiled = pytest.mark.skipif(build.library() is None, reason="legs in C need a C compiler, and there is none here")
SMALL = {
    "model": "mlp:dropout=0,hidden=6",
    "clients": 6,
    "participants": 3,
    "local_steps": 4,
    "batch_size": 70,  # of 239 or 240: a short batch at the end of each pass
    "rounds": 3,
    "dtype": "float64",
    "lr": 0.2,
}


def twice(*, together: bool = False) -> Algorithm:
    """Everyone is visited twice in a round: one after another, or all at once and their mean handed out again."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = state.model
        for _ in range(2):
            if together:
                x = {name: leaf.mean(1) for name, leaf in sites.train(x, order).x.items()}
            else:
                for client in order:
                    x = sites.train(x, client).x
        return State(x)

    return Algorithm(round)


@declares(repeats=True)
def put_back(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
    """Drawn with replacement."""
    key = rng.bits(seed, rng.ORDER, round).unsqueeze(1)
    return rng.below(rng.bits(key, torch.arange(participants)), torch.tensor(clients))


# By hand: one leg after another in plain PyTorch


def leg_by_hand(program: Program, x: Params, lane: int, round: int, client: int, number: int, lr: float) -> Params:
    """number: of visits to this client in this round before. x and what is made of it have no lane axis."""
    lanes = len(program.seeds)
    drawn = program.draw(round, torch.full((lanes, 1), client), number)
    own = program.lanes
    step = Step(torch.full_like(own.lr, lr), own.clip, own.weight_decay, own.momentum)
    return by_torch(program.net, program.clients, {n: leaf.unsqueeze(0) for n, leaf in x.items()}, drawn, lane, step)[0]


def round_by_hand(program: Program, x: Params, lane: int, round: int, lr: float) -> Params:
    spec = program.setting.algorithm
    order = program.order(round)[lane].tolist()
    seen: list[int] = []

    def trained(x: Params, client: int) -> Params:
        seen.append(client)
        return leg_by_hand(program, x, lane, round, client, seen.count(client) - 1, lr)

    for _ in range(2 if "twice" in spec else 1):
        if "together" in spec or "parallel" in spec:
            made = [trained(x, client) for client in order]
            x = {name: torch.stack([each[name] for each in made]).mean(0) for name in x}
        else:
            for client in order:
                x = trained(x, client)
    return x


def assert_by_hand(settings: list[Setting], rates: list[float] | None = None) -> None:
    """Every lane of a run, to 1e-10. rates: of the rounds; without, the setting's in all of them."""
    program, at = finish(settings)
    for lane, setting in enumerate(settings):
        x = {name: leaf[lane] for name, leaf in program.net.init(program.seeds).items()}
        begin = dict(x)
        for round in range(setting.rounds):
            x = round_by_hand(program, x, lane, round, rates[round] if rates else setting.lr)
        for name, leaf in x.items():
            assert not torch.allclose(leaf, begin[name], rtol=1e-3)
            torch.testing.assert_close(at.state.model[name][lane], leaf, rtol=1e-10, atol=1e-12)


# A second visit


@pytest.mark.parametrize("sampling", ["shuffle", "replacement"])
def test_every_visit_of_a_round_draws_anew(sampling: str) -> None:
    """By lane, round, client and number of the visit: all keys differ, and so do the minibatches."""
    settings = [Setting(**SMALL, sampling=sampling, seed=seed) for seed in (1, 2)]
    program = Program(settings, CPU)
    everyone = torch.arange(6).expand(2, 6)
    drawn = [program.draw(round, everyone, number) for round in (0, 1) for number in (0, 1, 2)]
    assert torch.cat([made.key for made in drawn]).unique().numel() == 6 * 12 * 4
    for i, one in enumerate(drawn):
        for other in drawn[:i]:
            agree = (one.places == other.places).flatten(1).double().mean(1)
            assert float(agree.max()) < 0.1  # of places; by chance one in 240
            assert torch.equal(one.weight, other.weight)
        held = program.clients.samples.view(-1)
        for client in range(6):
            own = held[program.clients.start[0, client] : program.clients.start[0, client + 1]]
            rows = one.places.view(2, 6, -1)[:, client]
            live = one.weight.view(2, 6, -1)[:, client] > 0
            assert bool(torch.isin(rows[live], own).all())
            if sampling == "shuffle":  # four steps are one pass
                assert rows[0][live[0]].unique().numel() == len(own)


def test_numbers_may_differ_from_lane_to_lane() -> None:
    """One call for a lane's first and another lane's third visit: each what it is alone."""
    program = Program([Setting(**SMALL, seed=seed) for seed in (1, 2)], CPU)
    client = torch.tensor([[3, 3, 5], [0, 3, 0]])
    number = torch.tensor([[0, 1, 0], [2, 0, 1]])
    mixed = program.draw(1, client, number)
    for lane in range(2):
        for place in range(3):
            alone = program.draw(1, client[:, place : place + 1], int(number[lane, place]))
            for field, wanted in zip(mixed, alone, strict=True):
                assert torch.equal(field.view(2, 3, *field.shape[1:])[lane, place], wanted[lane])


@pytest.mark.parametrize("spec", ["test_visits:twice", "test_visits:twice:together=true"])
@pytest.mark.parametrize("sampling", ["shuffle", "replacement"])
def test_whoever_is_visited_twice_trains_on_other_minibatches(spec: str, sampling: str) -> None:
    assert_by_hand([Setting(**SMALL, sampling=sampling, algorithm=spec, seed=seed) for seed in (1, 2)])


@pytest.mark.parametrize("algorithm", ["sequential", "parallel", "test_visits:twice"])
def test_whoever_stands_twice_in_a_schedule_trains_on_other_minibatches(algorithm: str) -> None:
    settings = [Setting(**SMALL, schedule="test_visits:put_back", algorithm=algorithm, seed=seed) for seed in (3, 4, 5)]
    orders = Program(settings, CPU).orders(range(3)).flatten(0, 1).tolist()
    twice = [len(set(order)) < 3 for order in orders]
    assert any(twice)
    assert not all(twice)  # also rounds in which nobody does, or in one lane only
    assert_by_hand(settings)


@pytest.mark.parametrize(
    "algorithm", ["sequential", "parallel:weighting=size", "scaffold:of=sequential", "test_visits:twice"]
)
def test_with_repeats_a_lane_is_the_same_alone_and_among_others(algorithm: str) -> None:
    fixed = {**SMALL, "schedule": "test_visits:put_back", "algorithm": algorithm, "clip": 0.5, "eval_every": 3}
    settings = [Setting(**fixed, seed=seed, momentum=0.3 * (seed % 2)) for seed in (3, 4, 5, 6)]
    _, together = finish(settings)
    for lane, setting in enumerate(settings):
        assert_same_lane(finish([setting])[1], together, lane, 1e-10)


# The learning rate of a round

SCHEDULES: dict[str, Callable[[SGD, int], lr_scheduler.LRScheduler]] = {
    "step:every=2,factor=0.5": lambda sgd, _: lr_scheduler.StepLR(sgd, 2, 0.5),
    "cosine": lambda sgd, rounds: lr_scheduler.CosineAnnealingLR(sgd, rounds),
    "cosine:floor=0.2,over=4": lambda sgd, _: lr_scheduler.CosineAnnealingLR(sgd, 4, 0.2 * sgd.defaults["lr"]),
    "exponential:factor=0.7": lambda sgd, _: lr_scheduler.ExponentialLR(sgd, 0.7),
}


@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
@pytest.mark.parametrize("spec", SCHEDULES)
def test_a_schedule_of_the_rate_is_training_by_hand_with_those_rates(spec: str, algorithm: str) -> None:
    """PyTorch's own schedulers, one step a round; a leg's momentum begins at 0."""
    fixed = {**SMALL, "rounds": 5, "momentum": 0.8, "lr": 0.1, "lr_schedule": spec, "algorithm": algorithm}
    optimizer = SGD([torch.zeros((), dtype=torch.float64, requires_grad=True)], lr=0.1)
    schedule, rates = SCHEDULES[spec](optimizer, 5), []
    for _ in range(5):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        schedule.step()
    assert len(set(rates)) > 2
    assert_by_hand([Setting(**fixed, seed=seed) for seed in (1, 2)], rates)


@pytest.mark.parametrize("algorithm", ["sequential", "parallel", "fedprox:mu=0.3", "fedavgm", "scaffold"])
def test_a_rate_of_0_leaves_everything_where_it_is(algorithm: str) -> None:
    """The cosine has ended: no lane diverges, and what clients keep is what they kept. fedavgm's server rolls on."""
    fixed = {**SMALL, "rounds": 6, "eval_every": 6, "algorithm": algorithm, "lr_schedule": "cosine:over=3"}
    program = Program([Setting(**fixed), Setting(**{**fixed, "lr_schedule": "constant"})], CPU)
    seen = []
    for at in advance(program, first(program)):
        assert at.diverged.tolist() == [-1, -1]
        seen.append({name: leaf.clone() for name, leaf in named(at.state, at.clients).items()})
    for name, leaf in seen[-1].items():
        assert bool(leaf.isfinite().all())
        if algorithm != "fedavgm":
            torch.testing.assert_close(leaf[0], seen[2][name][0], rtol=1e-14, atol=1e-15)  # a mean is rounded
        assert not torch.allclose(leaf[1], seen[2][name][1])


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.99])
def test_how_far_a_constant_direction_moves_a_model(momentum: float) -> None:
    """By the recursion v = m v + 1, x += v."""
    way = [0.0]
    v = 0.0
    for _ in range(12):
        v = momentum * v + 1
        way.append(way[-1] + v)
    steps = torch.arange(13, dtype=torch.float64).view(1, -1)
    found = reached(steps, torch.tensor([momentum], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([way], dtype=torch.float64), rtol=1e-11, atol=1e-11)
    assert torch.equal(reached(steps, None), steps)


# What clients keep: C writes a leg's direction over its shift, and over nothing else


def keeping(*, shift: str) -> Algorithm:
    """Handed on, with a shift that is somebody else's: what is kept, what was sent, or a constant."""
    constant: Params = {}

    def server(x: Params, now: Now) -> Params:  # noqa: ARG001
        return {name: 0.05 * leaf for name, leaf in x.items()}

    def init(x: Params) -> Params:
        return {name: 0.03 * leaf for name, leaf in x.items()}

    def begin(kept: Params, sent: Params) -> Params:
        if shift == "constant":
            constant.update(constant or {name: torch.full_like(leaf, 0.01) for name, leaf in kept.items()})
            assert all(bool((leaf == 0.01).all()) for leaf in constant.values())
            return dict(constant)
        return kept if shift == "kept" else sent

    def end(kept: Params, sent: Params, leg: Leg) -> Params:
        return {n: 0.5 * leaf + 0.1 * leg.direction[n] + 0.2 * sent[n] for n, leaf in kept.items()}

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = state.model
        for client in order:
            x = sites.train(x, client, sent=state.server).x
        return State(x, state.server)

    return Algorithm(round, server=server, local=Local(init, begin, end))


def ended(algorithm: str, kind: type) -> Snapshot:
    fixed = {**SMALL, "dtype": "float32", "model": "mlp:hidden=6", "algorithm": algorithm, "momentum": 0.5, "lr": 0.05}
    program = Program([Setting(**fixed, seed=seed) for seed in (1, 2)], CPU)
    assert type(program.legs) is kind
    *_, last = advance(program, first(program))
    return last


@compiled
@pytest.mark.parametrize(
    "algorithm", ["scaffold", *(f"test_visits:keeping:shift={shift}" for shift in ("kept", "sent", "constant"))]
)
def test_what_clients_keep_is_the_same_in_c_and_in_torch(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_c = ended(algorithm, Native)
    monkeypatch.setenv("BATON_NATIVE", "0")
    in_torch = ended(algorithm, Plain)
    for made, wanted in zip((*in_c.state, in_c.clients), (*in_torch.state, in_torch.clients), strict=True):
        assert made.keys() == wanted.keys() != set()
        for name, leaf in wanted.items():
            torch.testing.assert_close(made[name], leaf, rtol=1e-3, atol=1e-3 * float(leaf.abs().max()))


@compiled
@pytest.mark.parametrize("shift", ["kept", "sent", "constant"])
def test_a_visit_of_one_client_writes_over_nothing(shift: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In C as in torch, and again: what it was given is as it was. With a rate of 0 it keeps what it kept."""
    setting = Setting(**{**SMALL, "dtype": "float32", "algorithm": f"test_visits:keeping:shift={shift}"})
    data = datasets.load("digits", 6)
    own = Own(setting, data)
    assert type(own.legs) is Native
    x = {name: leaf[0] for name, leaf in own.net.init([1]).items()}
    sent, kept = {name: 0.05 * leaf for name, leaf in x.items()}, own.keeps(x)
    order = Order(x, 2, 1, 3, 1, local_steps=4, batch_size=70, lr=0.05, momentum=0.5, sent=sent)
    before = [{name: leaf.clone() for name, leaf in given.items()} for given in (x, sent, kept)]
    made = visit(own, order, kept)
    again = visit(own, order, kept)
    monkeypatch.setenv("BATON_NATIVE", "0")
    wanted = visit(Own(setting, data), order, kept)
    for name in x:
        assert all(torch.equal(given[name], was[name]) for given, was in zip((x, sent, kept), before, strict=True))
        assert not torch.equal(made[1][name], kept[name])
        for drawer in range(2):
            found, same, right = (end[1][name] if drawer else end[0].model[name] for end in (made, again, wanted))
            assert torch.equal(found, same)
            torch.testing.assert_close(found, right, rtol=1e-3, atol=1e-3 * float(right.abs().max()))
    still, its = visit(own, order._replace(lr=0.0), kept)
    assert all(torch.equal(still.model[name], leaf) and torch.equal(its[name], kept[name]) for name, leaf in x.items())


def test_a_shift_that_was_written_over_what_is_kept_is_not_copied() -> None:
    """SCAFFOLD's: no memory beyond the rows that were read."""
    kept, sent = {"x": torch.zeros(2, 3, 5)}, {"x": torch.ones(2, 1, 5)}
    local = build_algorithm("scaffold").local
    assert local is not None
    made = shift_of(local, kept, sent)
    assert torch.equal(made["x"], torch.ones(2, 3, 5))
    assert made["x"].data_ptr() == kept["x"].data_ptr()
