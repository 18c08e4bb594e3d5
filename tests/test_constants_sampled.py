"""Constants of large networks: samples of them, in float32, held against all of them in float64."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import baton
from baton import cli
from baton.constants import Measured, measure, plan
from baton.constants.blocks import Blocks, Curvature
from baton.constants.envelope import interval
from baton.constants.lanczos import orthonormal, top
from baton.constants.objective import Objective
from baton.constants.replicates import jackknife, leaving_one_out, square, variance
from baton.constants.sampled import Sampled
from baton.constants.view import Point, View
from baton.errors import BadInput
from baton.models.resnet18 import resnet18
from baton.setting import Setting
from baton.simulate.arithmetic import arithmetic
from baton.sweep import progress
from contracts.examples import CPU
from processes import start

ROOM = 4 << 30


def thirds(labels: np.ndarray, clients: int) -> np.ndarray:
    """240 samples: client m holds only those of three classes, so that clients differ; the rest nobody's."""
    owner = (labels * clients) // 10
    owner[240:] = -1
    return owner


def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Digits are rows of 64."""
    assert shape == (64,)
    layers = (nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *layers, nn.Linear(32, classes))


def resnet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """ResNet-18 of 8 x 8 images."""
    assert shape == (64,)
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), resnet18((1, 8, 8), classes))


def small(**fields: object) -> Setting:
    """A small CNN on digits: all of it takes a second or two."""
    common = {
        "model": "test_constants_sampled:cnn",
        "partition": "test_constants_sampled:thirds",
        "clients": 4,
        "rounds": 2,
        "lr": 0.1,
    }
    return Setting(**{"weight_decay": 0.01, **common, **fields})


def looked(setting: Setting, samples: int, few: int = 4) -> tuple[View, Sampled]:
    """All of a problem, and samples of it."""
    objective = Objective(setting, CPU)
    every = list(range(setting.clients))
    blocks = Blocks(objective, ROOM, lambda passes: None)  # noqa: ARG005
    return View(objective, every, 1e-4), Sampled(objective, plan.Plan(samples, 20, few, 2, 2), every, blocks)


# What squares of estimated means are


def test_squares_of_estimated_means_are_right_on_average() -> None:
    """Over all that can be drawn: replicates with replacement, and parts without."""
    population = torch.tensor([[1.0, 0.0], [2.0, 1.0], [-1.0, 3.0], [0.5, 0.5]], dtype=torch.float64)
    exact = float(population.mean(0).square().sum())
    drawn = [population[list(some)] for some in product(range(4), repeat=3)]
    assert np.mean([float(square(rows @ rows.T)) for rows in drawn]) == pytest.approx(exact)
    spread = float((population - population.mean(0)).square().sum(1).mean())
    assert np.mean([float(variance(rows @ rows.T)) for rows in drawn]) == pytest.approx(spread)
    orders = [population[list(some)] for some in product(range(4), repeat=3) if len(set(some)) == 3]
    assert np.mean([float(square(rows @ rows.T, 1 / 4)) for rows in orders]) == pytest.approx(exact)
    assert float(square(population @ population.T, 0.0)) == pytest.approx(exact)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = torch.tensor([1.0, 4.0, 2.0, 8.0], dtype=torch.float64)
    without = torch.stack([torch.cat([values[:i], values[i + 1 :]]).mean() for i in range(4)])
    assert jackknife(without) == pytest.approx(float(values.std()) / 2)
    gram = torch.arange(9.0).view(3, 3)
    assert leaving_one_out(gram)[1].tolist() == [[0, 2], [6, 8]]


def test_the_interval_of_a_line_is_its_points_and_is_wide_where_they_fall_together() -> None:
    sure = interval([0.0, 2.0], [1.0, 5.0], [(0.0, 0.0), (0.0, 0.0)])
    assert sure == [(pytest.approx(2), pytest.approx(2)), (pytest.approx(1), pytest.approx(1))]
    (low, high), _ = interval([1.0, 1.1], [1.0, 5.0], [(1.0, 0.1), (1.0, 0.1)])
    assert low < 0.5
    assert high > 8  # the line through the two has the slope 40, the one through 0 and the second 4.5


# Few products


def test_the_largest_eigenvalue_lies_between_the_quotient_and_its_residual() -> None:
    generator = np.random.default_rng(0)
    for seed in range(20):
        basis = torch.linalg.qr(torch.from_numpy(generator.normal(size=(40, 40)))).Q
        eigen = torch.from_numpy(generator.normal(size=40))
        eigen[0] = (3 if seed % 2 else -3) * eigen.abs().max()
        matrix = basis * eigen @ basis.T
        for most in (4, 40):
            found = top(lambda v, a=matrix: a @ v, torch.from_numpy(generator.normal(size=40)), 1e-2, most)
            largest = float(eigen.abs().max())
            assert found.value <= largest * (1 + 1e-12)
            assert abs(float(found.vector @ matrix @ found.vector)) == pytest.approx(found.value)
            if most == 40:
                assert found.value + found.error >= largest
                assert found.error <= 1e-2 * found.value
                assert found.steps < 40


def test_a_basis_of_vectors_that_repeat() -> None:
    basis = orthonormal(torch.tensor([[3.0, 0, 0], [3.0, 0, 0], [1.0, 2.0, 0]], dtype=torch.float64))
    torch.testing.assert_close(basis @ basis.T, torch.eye(2, dtype=torch.float64))


# Float32 against float64


@pytest.mark.parametrize("room", [ROOM, 2 << 20])
def test_float32_gradients_and_products_are_those_of_float64(room: int) -> None:
    """Graphs that are kept, and graphs made anew each time."""
    objective = Objective(small(weight_decay=0.0), CPU)
    blocks = Blocks(objective, room, lambda passes: None)  # noqa: ARG005
    x = objective.start()
    group = objective.together([1])
    v = torch.from_numpy(np.random.default_rng(0).normal(size=(2, objective.size)))
    curvature = Curvature(blocks, x, group.places[0], group.weight[0])
    assert bool(curvature._kept) == (room == ROOM)
    exact = objective.products(x, v.unsqueeze(0), group)[0]
    assert float((curvature.products(v) - exact).norm() / exact.norm()) < 1e-5
    slope = objective.gradients(x, group)[0]
    assert float((curvature.gradient() - slope).norm() / slope.norm()) < 1e-5
    _, found = blocks.gradient(x, group.places[0], group.weight[0])
    assert float((found - slope).norm() / slope.norm()) < 1e-5


def test_all_samples_give_what_all_of_it_gives() -> None:
    """Nothing is drawn then, so that only float32 is between the two, and the tolerance of eigenvalues."""
    view, sampled = looked(small(clients=2), 5000)
    x = view.objective.start()
    one, other = view.point("here", x), sampled.point("here", x)
    assert other.loss == pytest.approx(one.loss, rel=1e-6)
    assert other.gradient2 == pytest.approx(one.gradient2, rel=1e-4)
    assert other.diversity == pytest.approx(one.diversity, rel=1e-4)
    assert (other.error, other.loss_error, other.gradient2_error) == (None, None, None)
    order = [m for some, _ in view.groups for m in some]  # its groups are by size
    exact = view.hessians(x)[0][np.argsort(order)]
    value, error = sampled.hessians(x)
    assert bool((value <= exact * (1 + 1e-4)).all())
    assert bool((value + error >= exact * (1 - 1e-4)).all())
    np.testing.assert_allclose(value, exact, rtol=1e-2)
    exact = view.differences(x)[0][np.argsort(order)]
    value, error = sampled.differences(x)
    assert bool((value <= exact * (1 + 1e-4)).all())
    assert bool((value + error >= exact * (1 - 1e-4)).all())


@pytest.mark.parametrize("clients", [4, 60])
def test_samples_lie_about_all_of_it_as_far_as_they_say(clients: int) -> None:
    """Over seeds of what is drawn, the start being one: errors in units of those that are told.

    Four clients are in every replicate; of 60 some are drawn.
    """
    partition = "iid" if clients == 60 else small().partition
    view, sampled = looked(small(clients=clients, partition=partition), 160)
    o = view.objective
    x = o.start()
    exact = view.point("here", x)
    found: list[Point] = []
    for seed in range(12):
        o.setting = Setting(**{**o.setting.model_dump(), "seed": seed})
        sampled._seen = None
        if clients == 60:
            sampled.chosen = sorted(np.random.default_rng(seed).choice(60, 20, replace=False).tolist())
        found.append(sampled.point("here", x))
    for name, own in (("loss", "loss_error"), ("gradient2", "gradient2_error"), ("diversity", "error")):
        off = np.array([getattr(p, name) - getattr(exact, name) for p in found])
        told = np.array([getattr(p, own) for p in found])
        assert abs(off.mean()) < 4 * told.mean() / 12**0.5, name  # no bias
        assert 0.4 < np.sqrt((off**2).mean()) / np.sqrt((told**2).mean()) < 2, name  # errors are as large as told


def test_a_part_of_a_clients_samples_has_no_bias_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "LEAST", 40)
    view, sampled = looked(small(), 480)
    o = view.objective
    x = o.start()
    exact = view.point("here", x)
    off, told = [], []
    for seed in range(12):
        o.setting = Setting(**{**o.setting.model_dump(), "seed": seed})
        sampled._seen = None
        assert max(len(sampled.own(m)[0]) for m in range(4)) == 40
        point = sampled.point("here", x)
        off.append(point.diversity - exact.diversity)
        told.append(point.error or 0.0)
    assert abs(np.mean(off)) < 4 * np.mean(told) / 12**0.5
    assert 0.4 < np.sqrt(np.mean(np.square(off))) / np.sqrt(np.mean(np.square(told))) < 2


def test_variances_from_few_minibatches_are_those_of_all_batches() -> None:
    view, sampled = looked(small(batch_size=7, local_steps=1), 480)
    sampled.draws = 64
    x = view.objective.start()
    exact = view.variances(x)[0]
    order = [m for some, _ in view.groups for m in some]
    value, error = sampled.variances(x)
    assert 0 < error < 0.1 * float(value.mean())
    assert abs(float(value.mean() - exact.mean())) < 4 * error
    assert len(order) == len(value)


# The whole of it


def test_large_problems_are_sampled_unless_all_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measure(small(clients=2), CPU, points=1)
    assert whole.sampled == ""
    monkeypatch.setattr(plan, "WHOLE", 1e9)
    said: list[str] = []
    monkeypatch.setattr(plan, "LEVELS", (plan.Level(160, 4, 2, 4),))
    some = measure(small(clients=2), CPU, points=1, say=said.append)
    assert "F and its gradient over 160 of 240 samples" in some.sampled
    assert len(said) == 1
    assert "about" in said[0]
    assert "core" in said[0]
    every = measure(small(clients=2), CPU, ["A"], samples=0)
    assert every.sampled == ""
    assert every.constants["A"] == whole.constants["A"]
    assert set(some.constants) == set(whole.constants)
    a = some.constants["A"]
    assert abs(a.value - whole.constants["A"].value) < 5 * a.error
    for name in ("L_local", "delta_local"):
        found = some.constants[name]
        assert found.low <= whole.constants[name].value * 1.001
        assert found.high >= whole.constants[name].value * 0.999
    zeta = some.constants["zeta2_local"]
    assert zeta.low <= whole.constants["zeta2_local"].value <= zeta.high * 1.1


def test_the_same_samples_each_time_and_more_if_asked_for() -> None:
    def found(**options: int) -> Measured:
        return measure(small(), CPU, ["A", "L"], points=1, rounds=1, **options)

    assert found(samples=160).constants == found(samples=160).constants
    assert found(samples=160).constants["A"] != found(samples=192).constants["A"]
    assert found(samples=100, clients=2).clients == 2


def test_a_tiny_resnet_finishes() -> None:
    setting = small(
        model="test_constants_sampled:resnet",
        partition="test_constants_sampled:few",
        clients=2,
        participants=1,
        local_steps=1,
        batch_size=2,
    )
    told: list[tuple[str, int, int]] = []
    with arithmetic("fp32"):
        measured = measure(
            setting, CPU, ["L", "A", "delta"], samples=16, points=1, rounds=1, tell=lambda *at: told.append(at)
        )
    found = measured.constants
    assert [p.where for p in measured.points] == ["round 0"]
    assert 0 < found["L_local"].value <= found["L_local"].high
    assert 0 < found["delta_local"].value <= found["delta_local"].high
    assert found["A"].value > 0
    jobs = list(dict.fromkeys(what for what, _, _ in told))
    assert jobs == ["a short run", "F at round 0", "gradients at round 0", "L at round 0", "delta at round 0"]
    done = [at for _, at, _ in told]
    assert done == sorted(done)  # it only grows
    assert 0.4 * told[-1][2] < done[-1] <= told[-1][2]


def few(labels: np.ndarray, clients: int) -> np.ndarray:
    """10 samples a client."""
    owner = np.full(len(labels), -1)
    owner[: 10 * clients] = np.arange(10 * clients) % clients
    return owner


@pytest.mark.parametrize(
    ("fields", "options", "line"),
    [
        ({"model": "logistic"}, {"samples": 100}, "samples: 100; only a network's F is sampled"),
        ({}, {"samples": 100, "memory": 100 << 10}, "memory: 100.0 KiB; this model takes"),
    ],
)
def test_what_cannot_be_sampled_is_refused_in_one_line(fields: dict, options: dict, line: str) -> None:
    with pytest.raises(BadInput) as refused:
        measure(small(**fields), CPU, **options)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


# What people see

WORDS = ["constants", "-M", "4", "-p", "iid", "--only", "L,A", "--points", "1", "--trajectory", "1"]
CNN = ["-m", "test_constants_sampled:cnn"]


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command_says_what_it_looked_at(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    assert run(monkeypatch, *WORDS, *CNN, "--samples", "64") == 0
    shown = capsys.readouterr()
    assert "samples: F and its gradient over 64 of 1,437 samples" in shown.out
    assert "products in float32" in shown.out
    assert "about" in shown.err.splitlines()[0]
    assert any("left" in line for line in shown.err.splitlines()[1:])
    assert run(monkeypatch, *WORDS, *CNN, "--samples", "64", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sampled"].startswith("F and its gradient over 64")
    assert found["points"][0]["loss_error"] > 0
    assert run(monkeypatch, *WORDS, *CNN, "--samples", "many") == 2
    assert "samples: 'many'; a number from 1 on, or all, is right" in capsys.readouterr().err


def test_time_left_is_told_of_the_steps_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 10.0, 30.0, 30.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    left = progress._Left()
    assert left(0, 100) == ""
    assert left(25, 100) == "0:30"
    assert left(75, 100) == "0:10"
    assert progress._told("x", 250, 1000, "0:30") == "x  25%  0:30 left"
    assert progress._told("x", 3, 0) == "x  3"
    assert progress._told("x", 3, 4) == "x  3/4"


def test_interrupted_it_says_so_in_one_line() -> None:
    words = [sys.executable, "-m", "baton", *WORDS, "-m", "test_constants_sampled:resnet", "--samples", "1400"]
    where = os.pathsep.join([str(Path(baton.__file__).parents[1]), str(Path(__file__).parent)])
    streams = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with start(words, env={**os.environ, "PYTHONPATH": where}, **streams) as asked:
        assert asked.stderr is not None
        assert "about" in asked.stderr.readline()
        time.sleep(0.3)
        asked.send_signal(signal.SIGINT)
        out, err = asked.communicate(timeout=60)
    assert asked.returncode == 130
    assert err.splitlines()[-1] == "baton: stopped; constants are not stored, so nothing is left of it"
    assert "Traceback" not in err
    assert out == ""


def test_nobody_gets_samples_without_a_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever measures, `advise` and `drift --bound` among them, and asks for no other way to be told."""
    monkeypatch.setattr("baton.notice._said", set())
    measure(small(clients=2), CPU, ["A"], samples=100)
    assert "F and its gradient over" in capsys.readouterr().err
    measure(small(clients=2), CPU, ["A"], samples=0)
    assert capsys.readouterr().err == ""
