"""Client drift against plain loops that keep every x_mk, against closed forms, and against the paper's lemmas."""

import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

from baton import cli, datasets, theory
from baton.constants import measure as constants
from baton.datasets.quadratic import split
from baton.errors import BadInput
from baton.measure import drift
from baton.measure.drift import Watched, measure
from baton.seam import Cohort
from baton.setting import Setting
from baton.simulate.engine import Program, advance, first, start
from baton.simulate.kept import Kept, laid_out
from baton.simulate.simulation import Simulation
from contracts.examples import CPU


def digits(**fields: object) -> Setting:
    common = {"clients": 6, "partition": "exdir:C=3,alpha=1", "local_steps": 4, "rounds": 5, "dtype": "float64"}
    return Setting(**{**common, "lr": 0.2, "weight_decay": 0.01, **fields})


def kept(program: Program, round: int, x: torch.Tensor, lane: int) -> list[np.ndarray]:
    """Every x_mk of one lane's round, k = 0..K-1, by SGD written out once more; x [650]: weights, then bias."""
    setting = program.setting
    order = program.order(round)[lane].tolist()
    batches = program.ahead(round, program.order(round))
    table = program.clients
    found, now = [], x.numpy().copy()
    for leg, _ in enumerate(order):
        here = x.numpy().copy() if setting.algorithm.startswith("parallel") else now
        for k in range(setting.local_steps):
            found.append(here.copy())
            used = batches[leg].weight[lane, k] > 0
            at = batches[leg].places[lane, k][used]
            z, y = table.x[at].numpy(), np.eye(10)[table.y[at].numpy()]
            score = z @ here[:640].reshape(10, 64).T + here[640:]
            p = np.exp(score - score.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            g = np.concatenate([((p - y).T @ z).ravel(), (p - y).sum(0)]) / len(z)
            here = here - setting.lr * (g + setting.weight_decay * here)
        now = here
    return found


@pytest.mark.parametrize("algorithm", ["sequential", "parallel", "parallel:weighting=size,server_lr=0.5"])
@pytest.mark.parametrize("participants", [6, 2])
def test_drift_is_what_a_plain_loop_adds_up(algorithm: str, participants: int) -> None:
    setting = digits(algorithm=algorithm, participants=participants)
    found = measure(setting, [0, 3], CPU, draws=3)
    program = Program([Setting(**{**setting.model_dump(), "seed": seed}) for seed in (1, 2, 3)], CPU)
    run = Program([setting], CPU)
    states = {0: start(run).state.model} | {at.round: at.state.model for at in advance(run, start(run))}
    for result, _ in found:
        x = torch.cat([states[result.round][name][0].flatten() for name in ("1.weight", "1.bias")])
        each = []
        for lane in range(3):
            steps = kept(program, result.round, x, lane)
            assert len(steps) == participants * 4
            each.append(sum(((step - x.numpy()) ** 2).sum() for step in steps))
        assert result.total == pytest.approx(np.mean(each), rel=1e-10)
        assert result.own == pytest.approx(each[0], rel=1e-10)
        assert result.error == pytest.approx(np.std(each, ddof=1) / 3**0.5, rel=1e-8)
        assert len(set(each)) == 3  # other seeds, other rounds


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("algorithm", ["sequential", "parallel", "fedprox:mu=3", "scaffold", "fedseq:groups=3"])
@pytest.mark.parametrize("model", ["logistic", "mlp:hidden=5"])
def test_a_round_that_is_watched_is_the_same_round(algorithm: str, model: str, dtype: str) -> None:
    common = {"algorithm": algorithm, "model": model, "dtype": dtype, "participants": 3, "clip": 1.0}
    program = Program([digits(**common, seed=seed) for seed in (1, 2)], CPU)
    order, now, begin = program.order(2), program.now(2, program.rate(2)), first(program)
    tables = laid_out({name: 0.1 + leaf for name, leaf in begin.clients.items()}, None)
    legs = Watched(program.legs, begin.state.model, 2, CPU)
    watched, plain = (
        program.algorithm.round(
            begin.state, Cohort.whole(order), Simulation(program, now, order, kept=Kept(tables), legs=each)
        )
        for each in (legs, None)
    )
    assert (legs.total > 0).all()
    for drawer, other in zip(watched, plain, strict=True):
        for name, leaf in drawer.items():
            torch.testing.assert_close(leaf, other[name], rtol=1e-5, atol=1e-6 if dtype == "float32" else 1e-14)


def test_momentum_cannot_be_watched() -> None:
    with pytest.raises(BadInput, match="momentum: drift is measured step by step") as refused:
        measure(digits(momentum=0.5), [0], CPU, draws=1)
    assert "\n" not in str(refused.value)


def test_noise_and_gradient_in_one_step() -> None:
    """K = 2 and one client: E|x_11 - x|^2 = eta^2 (|grad F|^2 + sigma^2)."""
    spec, lr, sigma = "quadratic_random:dim=3,zeta=0,delta=0,sigma=20", 0.01, 20.0
    setting = Setting(dataset=spec, clients=1, local_steps=2, lr=lr, rounds=1)
    hessian, c, _ = (part.numpy()[0] for part in split(datasets.load(setting.dataset, 1).x))
    exact = lr**2 * (((hessian @ np.full(3, 10.0) + c) ** 2).sum() + sigma**2)
    ((found, _),) = measure(setting, [0], CPU, draws=2000)
    assert abs(found.total - exact) < 4 * found.error
    assert found.error < 0.02 * exact


def test_without_noise_only_the_order_is_drawn() -> None:
    """Sequential, the paper's pair: the mean over both orders. Parallel: nothing is random."""
    common = {"dataset": "quadratic:zeta=3,delta=1/3", "local_steps": 3, "lr": 0.05, "rounds": 1}
    each = []
    for order in permutations([(4 / 3, 3.0), (2 / 3, -3.0)]):
        x, total = 10.0, 0.0
        for a, c in order:
            for _ in range(3):
                total += (x - 10) ** 2
                x -= 0.05 * (a * x + c)
        each.append(total)
    ((found, _),) = measure(Setting(**common), [0], CPU, draws=1000)
    assert found.own in (pytest.approx(each[0]), pytest.approx(each[1]))
    assert abs(found.total - np.mean(each)) < 4 * found.error
    ((found, _),) = measure(Setting(**common, algorithm="parallel"), [0], CPU, draws=5)
    assert found.error == 0
    alone = 0.0
    for a, c in [(4 / 3, 3.0), (2 / 3, -3.0)]:
        x = 10.0
        for _ in range(3):
            alone += (x - 10) ** 2
            x -= 0.05 * (a * x + c)
    assert found.total == pytest.approx(alone)


@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
@pytest.mark.parametrize(
    ("participants", "zeta", "sigma"), [(6, 5.0, 0.0), (6, 1.0, 3.0), (2, 30.0, 1.0), (1, 2.0, 9.0)]
)
def test_the_lemmas_hold_with_exact_constants(algorithm: str, participants: int, zeta: float, sigma: float) -> None:
    spec = f"quadratic_random:dim=5,L=4,mu=0.5,delta=1,zeta={zeta},sigma={sigma}"
    common = {"dataset": spec, "clients": 6, "participants": participants, "local_steps": 5, "rounds": 200}
    share = participants if algorithm == "sequential" else 1
    setting = Setting(**common, algorithm=algorithm, lr=1 / (6 * 4 * share * 5))
    found = measure(setting, [0, 3, 30, 150], CPU, draws=200)
    limits = drift.bounds(setting, found, CPU, lambda *_: None)
    exact = constants(setting, CPU).constants
    for (result, at), limit in zip(found, limits, strict=True):
        assert bool(limit.valid)
        assert result.total <= limit.total
        hessian, c, _ = split(datasets.load(spec, 6).x)
        best = torch.linalg.solve(hessian.mean(0), -c.mean(0))
        away = at.state.model["x"][0] - best
        gap = float(away @ hessian.mean(0) @ away) / 2
        numbers = {"L": 4, "sigma": sigma, "zeta": zeta, "K": 5, "S": participants, "eta": setting.lr, "gap": gap}
        lemma = theory.drift_bound(algorithm, "strongly_convex", **numbers)
        times = 1 if algorithm == "sequential" else participants  # its sum is a mean over clients
        assert limit.total == pytest.approx(times * lemma.total, rel=1e-6)
    assert exact["zeta_star2"].value == pytest.approx(zeta**2)
    assert found[0][0].total > found[-1][0].total  # it falls while the gap does


def test_too_large_a_rate_is_said_beside_the_bound() -> None:
    setting = Setting(dataset="quadratic", lr=0.5, rounds=3)
    (limit,) = drift.bounds(setting, measure(setting, [0], CPU, draws=2), CPU, lambda *_: None)
    assert not bool(limit.valid)
    assert "eta" in limit.reasons[0]


def test_chunks_that_fit_the_memory_change_nothing() -> None:
    setting = digits(participants=3)
    whole = measure(setting, [1], CPU, draws=8)[0][0]
    each = drift.mem.per_lane([setting], 1 << 40, CPU)
    parts = measure(setting, [1], CPU, draws=8, memory=3 * each)[0][0]
    assert parts == pytest.approx(whole, rel=1e-10)


def test_a_run_that_diverges_is_followed_to_where_it_does() -> None:
    setting = Setting(dataset="quadratic", lr=1e10, rounds=30)
    found = measure(setting, [0, 1, 20], CPU, draws=2)
    assert [result.round for result, _ in found] == [0, 1]


@pytest.mark.parametrize(
    ("at", "draws", "line"),
    [([5], 1, "at: 5; rounds from 0 to 4"), ([-1], 1, "at: -1"), ([], 1, "at: nothing"), ([0], 0, "draws: 0")],
)
def test_bad_input_is_one_line(at: list[int], draws: int, line: str) -> None:
    with pytest.raises(BadInput, match=line) as refused:
        measure(digits(), at, CPU, draws)
    assert "\n" not in str(refused.value)


def test_the_lemma_needs_an_optimum() -> None:
    setting = digits(weight_decay=0.0, rounds=1)
    with pytest.raises(BadInput, match="weight_decay: 0; the lemma is about x"):
        drift.bounds(setting, [], CPU, lambda *_: None)


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["baton", "drift", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def test_the_command_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["-d", "quadratic_random:dim=3,sigma=1", "-M", "4", "-S", "2", "-R", "8", "--lr", "0.001", "--bound"]
    assert run(monkeypatch, *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["0", "1", "2", "5"]
    assert run(monkeypatch, *words, "--at", "0,7", "--draws", "3", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["round"] for row in found["rounds"]] == [0, 7]
    assert all(row["total"] < row["bound"]["total"] for row in found["rounds"])
    assert list(tmp_path.iterdir()) == []
    assert run(monkeypatch, *words, "--at", "0,x") == 2
    assert capsys.readouterr().err == "baton: at: '0,x'; rounds such as 0,1,10 are right\n"


def test_a_run_may_have_its_drift_measured_and_stays_the_same(tmp_path: Path) -> None:
    words = ["run", "-M", "4", "-S", "2", "-K", "2", "-R", "6", "--eval-every", "3", "--json"]
    words += ["--lr", "0.05", "--dtype", "float64", "--runs"]
    plain, more = (
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "baton", *words, str(tmp_path / name), *extra],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for name, extra in (("a", []), ("b", ["--measure", "drift"]))
    )
    drifts = more.pop("drift")
    assert plain == more
    assert [row["round"] for row in drifts] == [0, 1, 2, 5]
    assert all(row["total"] > 0 for row in drifts)
    wrong = subprocess.run([sys.executable, "-m", "baton", "run", "--measure", "drif"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert wrong.stderr == "baton: measure: 'drif'; 'drift', 'hops' or 'personal' is right\n"
