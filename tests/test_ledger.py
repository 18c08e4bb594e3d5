"""The ledger: bytes by hand, bytes as they cross, over rounds and crashes; and the time they would take."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from baton import cli, ledger
from baton.algorithms import Cohort, State, build
from baton.api import run
from baton.clients import batches, spans, taken, visit
from baton.ledger import Done, Prices, Rates, Trace
from baton.legs.split import SplitLegs
from baton.setting import Setting
from baton.simulate.books import traffic, ways
from baton.simulate.engine import Program
from baton.simulate.simulation import Simulation
from baton.store.columns import BYTES
from contracts.examples import CPU, cases, examples, finish
from heard import Heard, hear
from steps import step_of
from test_leg import lanes_of, table

MLP = 64 * 64 + 64 + 64 * 10 + 10  # parameters on the digits
FRONT = 64 * 64 + 64


def sent(spec: str, model: str = "mlp", **more: object) -> dict[str, float]:
    """Bytes of two rounds of three participants."""
    common = {"model": model, "clients": 5, "participants": 3, "local_steps": 4, "rounds": 2, "batch_size": 20}
    _, last = finish([Setting(**{**common, "algorithm": spec, **more})])
    return {column: float(last.history.last(column)[1][0]) for column in BYTES}


PRICE = Prices(item=4, model=1000, sample_up=10, sample_down=7, norm=4, messages=2, client_flops=100, server_flops=200)
LEGS, SAMPLES, STEPS = 6, 6 * 80, 6 * 4


@pytest.mark.parametrize(
    ("spec", "more", "wanted"),
    [
        ("sequential", {}, (0, 0, LEGS * MLP * 4)),
        ("sequential", {"dtype": "float64"}, (0, 0, LEGS * MLP * 8)),
        ("sequential", {"model": "logistic"}, (0, 0, LEGS * 650 * 4)),
        ("parallel", {}, (LEGS * MLP * 4, LEGS * MLP * 4, 0)),
        ("parallel:weighting=size", {"clip": 1.0}, (LEGS * MLP * 4, LEGS * MLP * 4, 0)),
        ("ssl:cut=1", {}, (SAMPLES * (64 * 4 + 8), SAMPLES * 64 * 4, LEGS * FRONT * 4)),
        ("ssl:cut=1", {"clip": 1.0}, (SAMPLES * 264 + STEPS * 4, SAMPLES * 256 + STEPS * 4, LEGS * FRONT * 4)),
        ("ssl:cut=1,clip=per_side", {"clip": 1.0}, (SAMPLES * 264, SAMPLES * 256, LEGS * FRONT * 4)),
        ("ssl:cut=1,relay=server", {}, (SAMPLES * 264 + LEGS * FRONT * 4, SAMPLES * 256 + LEGS * FRONT * 4, 0)),
        ("splitfed:cut=1", {}, (SAMPLES * 264 + LEGS * FRONT * 4, SAMPLES * 256 + LEGS * FRONT * 4, 0)),
        ("splitfed:cut=1,version=2", {}, (SAMPLES * 264 + LEGS * FRONT * 4, SAMPLES * 256 + LEGS * FRONT * 4, 0)),
        ("ssl:cut=1,head=4", {}, (SAMPLES * (256 + 40), SAMPLES * (40 + 256), LEGS * FRONT * 4)),
        ("ssl:cut=1", {"sampling": "replacement"}, (SAMPLES * 264, SAMPLES * 256, LEGS * FRONT * 4)),
    ],
)
def test_bytes_by_hand(spec: str, more: dict[str, object], wanted: tuple[int, int, int]) -> None:
    assert tuple(sent(spec, **more).values()) == wanted


def program(spec: str, participants: int = 4, **more: object) -> Program:
    common = {"model": "mlp", "clients": 8, "participants": participants, "local_steps": 2, "rounds": 6}
    return Program([Setting(**{**common, "algorithm": spec, **more})], CPU)


def counted(spec: str, participants: int = 4, **more: object) -> Trace:
    """The round of an algorithm whose rounds are all alike."""
    (trace,) = program(spec, participants, **more).terms.trace.values()
    return trace


def work(samples: Sequence[int], steps: Sequence[int]) -> Done:
    return Done(torch.tensor([samples]), torch.tensor([steps]), torch.tensor([[1]]))


def test_a_step_a_leg_and_a_round() -> None:
    assert [int(x) for x in ledger.step(PRICE, torch.tensor(20), torch.tensor(1))] == [204, 144, 0]
    leg = work([50], [3])
    assert [x.tolist() for x in ledger.round_(PRICE, counted("ssl:cut=1", 1), leg)] == [[512], [362], [1000]]
    three = work([50, 0, 20], [3, 0, 1])
    assert [x.tolist() for x in ledger.round_(PRICE, counted("ssl:cut=1", 3), three)] == [[716], [506], [3000]]
    through = counted("ssl:cut=1,relay=server", 1)
    assert [x.tolist() for x in ledger.round_(PRICE, through, leg)] == [[1512], [1362], [0]]


@given(
    sizes=st.lists(st.integers(0, 45), min_size=2, max_size=5).filter(any),
    steps=st.integers(1, 7),
    batch=st.integers(1, 12),
    passes=st.integers(0, 3),
    sampling=st.sampled_from(["shuffle", "replacement"]),
)
def test_samples_of_a_leg_are_those_of_its_batches(
    sizes: list[int], steps: int, batch: int, passes: int, sampling: str
) -> None:
    """Short last batches, several passes, few steps, empty clients."""
    setting = Setting(local_steps=steps, batch_size=batch, sampling=sampling)
    clients, count = table(sizes), torch.tensor(sizes)
    lanes, who = lanes_of([1] * len(sizes)), torch.arange(len(sizes))
    drawn = batches(clients, lanes, who, visit(lanes.seed, 0, who), setting, passes)
    own = drawn.weight.sum(2) * (count > 0).unsqueeze(1)  # [clients, K]
    samples, taken_steps = taken(count, setting, passes)
    assert samples.tolist() == own.sum(1).tolist()
    assert taken_steps.tolist() == (own > 0).sum(1).tolist()


@pytest.mark.parametrize("spec", ["ssl:cut=1", "ssl:cut=2,head=4", "ssl:cut=3,clip=per_side,passes=1"])
def test_bytes_as_they_cross(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes over the wire, less the padding of short batches, is what the ledger says."""
    monkeypatch.setenv("BATON_NATIVE", "0")  # in C nobody listens
    partition = "dirichlet:alpha=0.1,min_samples=1"
    common = {"model": "mlp", "clients": 30, "participants": 4, "partition": partition, "algorithm": spec}
    both = Program([Setting(**common, local_steps=6, clip=clip, seed=int(clip)) for clip in (0.0, 1.0)], CPU)
    legs, order, x = both.legs, both.order(0), both.net.init(both.seeds)
    assert isinstance(legs, SplitLegs)
    total = {"up": torch.zeros(2), "down": torch.zeros(2)}
    for leg in both.ahead(0, order):
        crossed: list[tuple[str, str, torch.Tensor]] = []
        legs.wire.listen = lambda way, what, t, crossed=crossed: crossed.append((way, what, t))  # type: ignore[misc]
        legs.train(x, step_of(both.lanes, leg)._replace(ragged="passes" in spec), leg)
        each = len(crossed) // 6
        for k in range(6):
            samples = leg.weight[:, k].sum(1)
            for way, what, t in crossed[k * each : (k + 1) * each]:
                if what == "norm":
                    total[way] += t.element_size() * (samples > 0) * (both.lanes.clip > 0)
                else:
                    total[way] += samples * t[0, 0].numel() * t.element_size()
    found = traffic(both, range(1))
    assert found["bytes_up"].tolist() == total["up"].tolist()
    assert found["bytes_down"].tolist() == total["down"].tolist()
    assert len(set(found["bytes_up"])) == 2  # other participants, other sizes


@pytest.mark.parametrize("spec", ["ssl:cut=1", "own_rounds:turns"])
def test_rounds_add_up(spec: str) -> None:
    own = program(spec, 3, clients=30, rounds=50)
    whole = traffic(own, range(50))
    parts = [traffic(own, range(first, last)) for first, last in ((0, 7), (7, 8), (8, 50))]
    assert all(whole[column] == sum(part[column] for part in parts) for column in BYTES)


# Who is handed what: counted, and seen in real rounds


OWN = [
    "seq:groups=2",
    "twice",
    "twice:handed=true",
    "swa",
    "swa:to_go_on=chain",
    "turns",
    "turns:pause=true",
    "waits:every=3",
    "home_first",
    "remembers",
    "looks_back",
    "anchored",
    "halves",
    "copies",
    "running",
    "pictures",
    "reads",
    "told",
    "by_halves",
]


REGISTERED = [
    spec.replace("groups=1", "groups=2")  # a mean of one is that one
    for spec in examples("algorithm")
    if build(spec).sends  # baselines only pretend to
]


@pytest.mark.parametrize("spec", [*cases(REGISTERED), "fedseq:groups=4", *(f"own_rounds:{own}" for own in OWN)])
def test_bytes_are_what_real_rounds_hand_over(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second round on: who holds the first model is nobody's to say."""
    monkeypatch.setenv("BATON_NATIVE", "0")  # in C nobody listens
    own = program(spec, clip=1.0)
    for round, seen in list(enumerate(hear(own, 5)))[1:]:
        assert {column: float(each[0]) for column, each in traffic(own, range(round, round + 1)).items()} == (
            seen._asdict()
        )


S = 4  # participants in what follows


@pytest.mark.parametrize(
    ("spec", "wanted"),  # up, down, peer, in models a round
    [
        ("sequential", (0, 0, S)),  # also from the last of a round to the first of the next
        ("parallel", (S, S, 0)),
        ("fedprox:mu=0.3", (S, S, 0)),
        ("fedavgm", (S, S, 0)),
        ("scaffold", (S, 2 * S, 0)),  # the server's control variate goes down too
        ("scaffold:option=1", (2 * S, 2 * S, 0)),  # a second look needs nothing more, and its gradient goes up
        ("scaffold:of=sequential", (S, S, S)),
        ("feddyn", (S, S, 0)),
        ("ewc", (S, S, S)),  # the model goes on; squares go up, and the Fisher comes down to the next
        ("sequential:last=2", (2, 1, S - 1)),
        ("sequential:ema=0.5", (S, 1, S - 1)),
        ("fedadam:of=sequential", (1, 1, S - 1)),
        ("fedseqinter:groups=2,every=5", (2, 2, S - 2)),  # each chain's model goes home after a round
        ("feddc:every=5", (S, S, 0)),
        ("fedseq:groups=2", (2, 2, S - 2)),
        ("fedseq:groups=1", (1, 1, S - 1)),  # an average of one model is the server's too
        ("own_rounds:seq:groups=2", (2, 2, S - 2)),
        ("own_rounds:twice", (2 * S, 2 * S, 0)),
        ("own_rounds:twice:handed=true", (0, 0, 2 * S)),
        ("own_rounds:swa", (S, 1, S - 1)),  # up and on to the next client; the mean comes down
        ("own_rounds:swa:to_go_on=chain", (S, 0, S)),
        ("own_rounds:home_first", (S, S, 0)),
        ("own_rounds:remembers", (1, 0, S)),
        ("own_rounds:looks_back", (1, 0, S)),
        ("own_rounds:anchored", (1, S, S)),
        ("own_rounds:halves", (S, S, 0)),
        ("own_rounds:copies", (0, 0, S)),
        ("own_rounds:running", (S, S, 0)),
        ("own_rounds:pictures", (S, S, 0)),
        ("own_rounds:reads", (S, S, 0)),
        ("own_rounds:peeks", (S, 0, S)),
        ("own_rounds:by_halves", (S, S, 0)),
        ("alone", (0, 0, 0)),
        ("pooled", (0, 0, 0)),
    ],
)
def test_nobody_has_to_say_how_models_travel(spec: str, wanted: tuple[int, int, int]) -> None:
    sent_ = traffic(program(spec), range(5))
    assert tuple(sent_[column][0] / (5 * 4 * MLP) for column in BYTES) == wanted


def test_what_goes_with_a_model_is_counted_number_by_number() -> None:
    sent_ = traffic(program("own_rounds:told"), range(1))
    assert tuple(sent_[column][0] for column in BYTES) == (S * 4 * MLP, S * 4 * (2 * MLP + 1), 0)


def test_rounds_of_two_kinds_are_counted_each() -> None:
    """Where a round's model begins is where the one before it ended."""
    each = [tuple(traffic(program("own_rounds:turns"), range(r, r + 1)).values()) for r in range(1, 5)]
    models = [tuple(column[0] / (4 * MLP) for column in columns) for columns in each]
    assert models == [(S, 0, S), (0, 1, S - 1), (S, 0, S), (0, 1, S - 1)]  # an average of what a client handed out
    each = [tuple(traffic(program("own_rounds:turns:pause=true"), range(r, r + 1)).values()) for r in range(1, 5)]
    models = [tuple(column[0] / (4 * MLP) for column in columns) for columns in each]
    assert models == [(1, 0, 0), (0, 1, S - 1), (1, 0, 0), (0, 1, S - 1)]  # the server asks for the model
    rare = traffic(program("own_rounds:waits:every=3"), range(6))
    assert tuple(rare[column][0] / (4 * MLP) for column in BYTES) == (0, 0, 2 * S)


def test_the_beginning_of_a_run_does_not_depend_on_its_length() -> None:
    short, long = (traffic(program("own_rounds:turns", rounds=rounds), range(3)) for rounds in (3, 4))
    assert short == long


@pytest.mark.parametrize(
    ("spec", "width", "held"),
    [
        ("sequential", 1, 1),
        ("parallel", S, S),
        ("fedseq:groups=2", 2, 2),
        ("splitfed:cut=1", S, S),
        ("splitfed:cut=1,version=2", 1, S),
        ("own_rounds:swa", 1, S),
        ("own_rounds:twice", S, 2 * S),
        ("own_rounds:by_halves", S // 2, S),
    ],
)
def test_models_trained_at_once_and_held_at_once(spec: str, width: int, held: int) -> None:
    assert (counted(spec).width, counted(spec).held) == (width, held)
    own = program(spec).terms
    assert (own.width, own.held) == (width, held)


def test_the_widest_kind_counts() -> None:
    own = program("own_rounds:turns").terms
    assert (own.width, own.held) == (S, S)


# Where legs do not come back


@pytest.mark.parametrize(
    ("spec", "failures", "on_failure", "wanted"),  # clients 0 and 3 of four fail; up, down, peer, in models
    [
        ("parallel", "clients:who=0+3", "skip", (2, 4, 0)),
        ("parallel", "clients:who=0+3", "abort", (2, 4, 0)),
        ("parallel", "clients:who=0+3", "retry:times=1", (2, 6, 0)),
        ("parallel", "clients:who=0+3", "retry:times=3", (2, 10, 0)),
        ("parallel", "clients:who=0+3", "reroute:times=3", (2, 4, 0)),  # nobody else is there
        ("parallel", "clients:who=0+3,p=0", "retry:times=3", (4, 4, 0)),
        ("parallel", "share:p=1", "skip", (0, 4, 0)),
        ("sequential", "clients:who=0+3", "skip", (0, 0, 4)),
        ("sequential", "clients:who=0+3", "retry:times=2", (0, 0, 8)),
        ("scaffold", "clients:who=0+3", "retry:times=1", (2, 12, 0)),
        ("fedseq:groups=4", "clients:who=0+3", "retry:times=1", (2, 6, 0)),
        ("own_rounds:twice", "clients:who=0+3", "retry:times=1", (4, 12, 0)),
    ],
)
def test_a_try_that_fails_costs_its_hand_over(
    spec: str, failures: str, on_failure: str, wanted: tuple[int, int, int]
) -> None:
    own = program(spec, clients=4, failures=failures, on_failure=on_failure)
    sent_ = traffic(own, range(3))
    assert tuple(sent_[column][0] / (3 * 4 * MLP) for column in BYTES) == wanted


def test_another_client_costs_a_hand_over_more() -> None:
    own = program("parallel", clients=20, failures="clients:who=0+1+2+3", on_failure="reroute:times=4")
    for round in range(6):
        failed = int((own.order(round) < 4).sum())
        models = [traffic(own, range(round, round + 1))[column][0] / (4 * MLP) for column in BYTES]
        assert models[0] == S  # each leg may ask four others, three of whom fail at most
        assert S + failed <= models[1] <= S + 4 * failed
        assert (models[1] > S) == (failed > 0)


@pytest.mark.parametrize("on_failure", ["skip", "retry:times=2", "reroute:times=2"])
@pytest.mark.parametrize("spec", ["splitfed:cut=1", "ssl:cut=1,passes=1"])
def test_steps_count_where_a_leg_came_back_and_for_who_took_them(spec: str, on_failure: str) -> None:
    """Against the answers of real rounds: other clients hold other numbers of samples."""
    more = {"partition": "dirichlet:alpha=0.2,min_samples=1", "clients": 20, "batch_size": 9, "local_steps": 5}
    own = program(spec, 6, failures="share:p=0.4", on_failure=on_failure, **more)
    x, came_back = own.net.init(own.seeds), 0
    for round in range(6):
        order = own.order(round)
        heard = Heard(Simulation(own, own.now(round, own.rate(round)), order), own)
        own.algorithm.round(State(x), Cohort.whole(order), heard)
        samples = 0
        for reply in heard.replies:
            assert reply.came is not None
            samples += int((taken(reply.samples, own.setting, own.passes)[0] * reply.came).sum())
            came_back += int(reply.came.sum())
        found = traffic(own, range(round, round + 1))
        came = sum(int(reply.came.sum()) for reply in heard.replies if reply.came is not None)
        up = samples * 264 + (came * FRONT * 4 if spec.startswith("splitfed") else 0)
        assert found["bytes_up"][0] == up
    assert 0 < came_back < 36 + (on_failure != "skip")


# In the store


@pytest.mark.parametrize("spec", ["sequential", "parallel", "ssl:cut=1"])
def test_columns_grow_from_zero(spec: str, tmp_path: Path) -> None:
    setting = Setting(model="mlp", clients=4, participants=2, rounds=7, eval_every=3, algorithm=spec)
    (done,) = run(setting, tmp_path, quiet=True)
    assert done.metrics["round"].tolist() == [0, 3, 6, 7]
    total = sum(done.metrics[column] for column in BYTES)
    assert total[0] == 0
    assert (np.diff(total) > 0).all()
    assert total[1] * 7 == total[3] * 3  # every client has more than K batches here


# Before anything is trained


def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["baton", "ledger", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    return capsys.readouterr().out


def test_the_command_says_what_the_run_will_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = "dirichlet:alpha=0.3,min_samples=1"
    flags = ["-m", "mlp", "-M", "30", "-S", "4", "-p", partition, "-b", "7", "-R", "9", "--clip", "1", "--json"]
    common = {"model": "mlp", "clients": 30, "participants": 4, "partition": partition, "batch_size": 7, "clip": 1.0}
    every = json.loads(told(capsys, monkeypatch, *flags))["algorithms"]
    cuts = [f"{name}:cut={cut}" for name in ("ssl", "splitfed") for cut in (1, 2, 3)]
    assert list(every) == ["sequential", "parallel", *cuts]
    specs = [*every, "ssl:cut=1,passes=1,relay=server"]
    done = run([Setting(**common, rounds=9, algorithm=spec) for spec in specs], tmp_path, quiet=True)
    for spec, r in zip(specs, done, strict=True):
        alone = json.loads(told(capsys, monkeypatch, *flags, "-a", spec))["algorithms"][r.setting.algorithm]
        assert alone == every.get(spec, alone)
        for column in BYTES:
            way = column.removeprefix("bytes_")
            assert alone["run"][way] == pytest.approx(r.metrics[column][-1])
            assert alone["leg"][way] * 4 * 9 == pytest.approx(alone["run"][way])
        assert r.way is not None
        assert alone["seconds_a_round"] == pytest.approx(ledger.seconds(r.way, Rates()))


def test_the_command_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = told(capsys, monkeypatch, "-m", "mlp", "-a", "ssl:cut=1").splitlines()
    assert shown[3].split() == ["a", "step", "of", "20", "samples", "5,280", "5,120", "0"]
    assert shown[4].split() == ["a", "leg", "26,400", "25,600", "16,640"]
    quicker = told(capsys, monkeypatch, "-m", "logistic", "--latency", "0", "--up", "1e9", "--down", "1e9")
    assert [line.split()[0] for line in quicker.splitlines()[3:]] == ["sequential", "parallel"]


# The time it would take


def test_the_way_through_a_round() -> None:
    specs = {
        "ssl": "ssl:cut=1",
        "through the server": "ssl:cut=1,relay=server",
        "splitfed 2": "splitfed:cut=1,version=2",
        "splitfed 1": "splitfed:cut=1",
    }
    two = work([50, 10], [3, 5])
    found = {name: [int(x) for x in ledger.way(PRICE, counted(spec, 2), two)] for name, spec in specs.items()}
    assert found == {  # up, down, peer, messages, client's work, server's work
        "ssl": [632, 452, 2000, 18, 6000, 12000],
        "through the server": [2632, 2452, 0, 20, 6000, 12000],
        "splitfed 2": [1632, 1452, 0, 18, 6000, 12000],
        "splitfed 1": [500 + 12 + 1000, 350 + 12 + 1000, 0, 12, 5000, 10000],
    }


WHOLE = PRICE._replace(sample_up=0, sample_down=0, norm=0, messages=0, server_flops=0)


@pytest.mark.parametrize(
    ("spec", "wanted"),  # up, down, peer, messages, in samples what clients do; legs of 50, 10, 20 and 40 samples
    [
        ("sequential", (0, 0, 4000, 4, 120)),
        ("parallel", (1000, 1000, 0, 2, 50)),
        ("fedseq:groups=2", (1000, 1000, 1000, 3, 60)),  # down, a chain, up; the longer chain has 60
        ("own_rounds:seq:groups=2", (1000, 1000, 1000, 3, 60)),  # the same, whatever order it is written in
        ("own_rounds:twice", (2000, 2000, 0, 4, 100)),
        ("own_rounds:twice:handed=true", (0, 0, 8000, 8, 240)),
        ("own_rounds:swa", (1000, 1000, 3000, 5, 120)),  # the mean is there when the last model is
        ("own_rounds:swa:to_go_on=chain", (1000, 0, 4000, 5, 120)),
        ("own_rounds:home_first", (4000, 4000, 0, 8, 120)),
        ("own_rounds:looks_back", (1000, 0, 4000, 4, 120)),  # what is fetched goes beside the chain
        ("own_rounds:by_halves", (2000, 2000, 0, 4, 90)),
        ("own_rounds:running", (1000, 1000, 0, 2, 50)),
    ],
)
def test_ways_of_whole_models(spec: str, wanted: tuple[int, ...]) -> None:
    way = ledger.way(WHOLE, counted(spec), work([50, 10, 20, 40], [5, 1, 2, 4]))
    assert (*(int(x) for x in way[:4]), int(way.client_flops) / 100) == wanted


def test_a_way_with_tries_that_fail() -> None:
    two = work([50, 10], [3, 5])._replace(tried=torch.tensor([[1, 3]]), came=torch.tensor([[0, 1]]))
    way = ledger.way(WHOLE, counted("parallel", 2), two)
    assert [int(x) for x in way] == [1000, 3000, 0, 4, 1000, 0]  # asked three times, then ten samples
    way = ledger.way(WHOLE, counted("sequential", 2), two)
    assert [int(x) for x in way] == [0, 0, 4000, 4, 1000, 0]


def test_seconds_by_hand() -> None:
    way = {"up": 100.0, "down": 300.0, "peer": 50.0, "messages": 4.0, "client_flops": 8e9, "server_flops": 6e12}
    rates = Rates(client_flops=4e9, server_flops=3e12, up=10.0, down=100.0, latency=0.5)
    assert ledger.seconds(way, rates) == pytest.approx(10 + 3 + 5 + 2 + 2 + 2)
    assert ledger.seconds(way, rates._replace(down=5.0)) == pytest.approx(10 + 60 + 10 + 2 + 2 + 2)


@pytest.mark.parametrize("spec", ["sequential", "parallel", "ssl:cut=1", "splitfed:cut=1", "splitfed:cut=1,version=2"])
def test_a_stored_run_knows_its_way(spec: str, tmp_path: Path) -> None:
    partition = "dirichlet:alpha=0.3,min_samples=1"
    common = {"model": "mlp", "clients": 30, "participants": 4, "partition": partition, "batch_size": 7}
    settings = [Setting(**common, rounds=9, algorithm=spec, seed=seed) for seed in (1, 2)]
    done = run(settings, tmp_path, quiet=True)
    both = Program(settings, CPU)
    assert [r.way for r in done] == ways(both)
    order = both.orders(range(9))
    samples = taken(spans(both.clients, both.lanes, order.flatten(1))[1].view(order.shape), settings[0])[0]
    at_once = spec in ("parallel", "splitfed:cut=1")
    mean = (samples.amax(-1) if at_once else samples.sum(-1)).double().mean(1)
    flops = 3 * 2 * (64 * 64 + 64 * 10)  # a step's operations on one sample
    for lane, r in enumerate(done):
        assert r.way is not None
        assert r.way["client_flops"] + r.way["server_flops"] == pytest.approx(flops * float(mean[lane]))
        if not at_once and "version" not in spec:  # all that is sent lies on the way
            for column in BYTES:
                assert r.metrics[column][-1] == pytest.approx(9 * r.way[column[6:]])
