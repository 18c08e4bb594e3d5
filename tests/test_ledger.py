"""The ledger: bytes by hand, bytes as they cross, over rounds and crashes; and the time they would take."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from baton.ledger.books import traffic, ways
from hypothesis import given
from hypothesis import strategies as st

from baton import algorithms, cli, ledger
from baton.api import run
from baton.clients import batches, taken
from baton.ledger import Prices, Rates
from baton.legs.split import SplitLegs
from baton.setting import Setting
from baton.simulate.engine import Program
from baton.store import Store
from baton.store.columns import BYTES
from baton.store.files import save
from contracts.examples import CPU, finish
from test_leg import lanes_of, table
from test_sweep import files

MLP = 64 * 64 + 64 + 64 * 10 + 10  # parameters on the digits
FRONT = 64 * 64 + 64


def sent(spec: str, model: str = "mlp", **more: object) -> dict[str, float]:
    """Bytes of two rounds of three participants."""
    common = {"model": model, "clients": 5, "participants": 3, "local_steps": 4, "rounds": 2, "batch_size": 20}
    _, last = finish([Setting(**{**common, "algorithm": spec, **more})])
    return {column: float(last.history.last(column)[1][0]) for column in BYTES}


PRICE = Prices(
    relay="peer",
    parallel=False,
    model=1000,
    sample_up=10,
    sample_down=7,
    norm=4,
    messages=2,
    client_flops=100,
    server_flops=200,
)
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


def test_a_step_a_leg_and_a_round() -> None:
    price = PRICE
    one = torch.tensor(1)
    assert [int(x) for x in ledger.step(price, torch.tensor(20), one)] == [204, 144, 0]
    assert [int(x) for x in ledger.leg(price, torch.tensor(50), torch.tensor(3), one)] == [512, 362, 1000]
    samples, steps = torch.tensor([[50, 0, 20]]), torch.tensor([[3, 0, 1]])
    assert [x.tolist() for x in ledger.round_(price, samples, steps, one)] == [[716], [506], [3000]]
    through = price._replace(relay="server")
    assert [int(x) for x in ledger.leg(through, torch.tensor(50), torch.tensor(3), one)] == [1512, 1362, 0]


@pytest.mark.parametrize(("parallel", "relay"), [(True, "average"), (False, "peer")])
def test_an_algorithm_of_the_users_own_need_not_say_how_parameters_travel(parallel: bool, relay: str) -> None:
    own = algorithms.build("parallel")._replace(parallel=parallel)
    assert ledger.prices(own, Program([Setting()], CPU).net, None).relay == relay


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
    drawn = batches(clients, lanes_of([1] * len(sizes)), 0, torch.arange(len(sizes)), setting, passes)
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
    program = Program([Setting(**common, local_steps=6, clip=clip, seed=int(clip)) for clip in (0.0, 1.0)], CPU)
    legs, order, x = program.legs, program.order(0), program.net.init(program.seeds)
    assert isinstance(legs, SplitLegs)
    total = {"up": torch.zeros(2), "down": torch.zeros(2)}
    for leg in program.draw(0, order):
        crossed: list[tuple[str, str, torch.Tensor]] = []
        legs.wire.listen = lambda way, what, t, crossed=crossed: crossed.append((way, what, t))  # type: ignore[misc]
        legs.train(x, program.lanes, leg)
        each = len(crossed) // 6
        for k in range(6):
            samples = leg.weight[:, k].sum(1)
            for way, what, t in crossed[k * each : (k + 1) * each]:
                if what == "norm":
                    total[way] += t.element_size() * (samples > 0) * (program.lanes.clip > 0)
                else:
                    total[way] += samples * t[0, 0].numel() * t.element_size()
    found = traffic(program, range(1))
    assert found["bytes_up"].tolist() == total["up"].tolist()
    assert found["bytes_down"].tolist() == total["down"].tolist()
    assert len(set(found["bytes_up"])) == 2  # other participants, other sizes


def test_rounds_add_up() -> None:
    program = Program([Setting(model="mlp", clients=30, participants=3, algorithm="ssl:cut=1", rounds=50)], CPU)
    whole = traffic(program, range(50))
    parts = [traffic(program, range(first, last)) for first, last in ((0, 7), (7, 8), (8, 50))]
    assert all(whole[column] == sum(part[column] for part in parts) for column in BYTES)


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


def aged(root: Path, runs: Sequence[str]) -> None:
    """The store as it was before there was a ledger."""
    store = Store(root)
    for run_id in runs:
        path = root / run_id / "metrics.csv"
        rows = [line.split(",") for line in path.read_text().splitlines()]
        path.write_text("\n".join(",".join(row[:-3]) for row in rows) + "\n")
        about = {key: value for key, value in store.about(run_id)._asdict().items() if key != "way"}
        save(root / run_id / "state.safetensors", store.params(run_id), about)


@pytest.mark.parametrize("some", [False, True], ids=["all", "some of them"])
def test_runs_of_an_older_store_are_read_and_gone_on_with(some: bool, tmp_path: Path) -> None:
    common = {"model": "mlp", "clients": 5, "participants": 2, "eval_every": 3, "algorithm": "ssl:cut=1"}
    short, long = ([Setting(**common, rounds=rounds, seed=seed) for seed in (1, 2)] for rounds in (6, 12))
    run(short, tmp_path / "on", quiet=True)
    aged(tmp_path / "on", [s.run_id for s in short[: 1 if some else 2]])
    old = Store(tmp_path / "on").read(short[0].run_id)
    assert old.way is None
    assert not [name for name in old.metrics if name in BYTES]
    run(long, tmp_path / "on", quiet=True)
    run(long, tmp_path / "scratch", quiet=True)
    scratch = files(tmp_path / "scratch")
    assert {name: data for name, data in files(tmp_path / "on").items() if name in scratch} == scratch


def test_numbers_of_training_have_the_ids_they_had() -> None:
    assert Setting().run_id == "15e9a534d6ddd57b"


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
    samples, steps, one = torch.tensor([[50, 10]]), torch.tensor([[3, 5]]), torch.tensor([[1]])
    price = PRICE
    ways_ = {
        "ssl": price,
        "through the server": price._replace(relay="server"),
        "splitfed 2": price._replace(relay="average"),
        "splitfed 1": price._replace(relay="average", parallel=True),
    }
    found = {name: [int(x) for x in ledger.way(p, samples, steps, one)] for name, p in ways_.items()}
    assert found == {  # up, down, peer, messages, client's work, server's work
        "ssl": [632, 452, 2000, 18, 6000, 12000],
        "through the server": [2632, 2452, 0, 20, 6000, 12000],
        "splitfed 2": [1632, 1452, 0, 18, 6000, 12000],
        "splitfed 1": [500 + 20 + 1000, 350 + 20 + 1000, 0, 12, 5000, 10000],
    }


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
    program = Program(settings, CPU)
    assert [r.way for r in done] == ways(program)
    samples, _, _ = program.work(range(9))
    at_once = algorithms.build(spec).parallel
    mean = (samples.amax(-1) if at_once else samples.sum(-1)).double().mean(1)
    work = 3 * 2 * (64 * 64 + 64 * 10)  # a step's operations on one sample
    for lane, r in enumerate(done):
        assert r.way is not None
        assert r.way["client_flops"] + r.way["server_flops"] == pytest.approx(work * float(mean[lane]))
        if not at_once and "version" not in spec:  # all that is sent lies on the way
            for column in BYTES:
                assert r.metrics[column][-1] == pytest.approx(9 * r.way[column[6:]])
