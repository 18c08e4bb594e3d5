"""Metrics against a plain loop; and evaluating changes nothing: not training, not the global generators."""

import csv
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import baton
from baton import datasets, rng
from baton.clients import owners, tables
from baton.legs import plain
from baton.setting import Setting
from baton.simulate import evaluate
from baton.simulate.engine import Program, Snapshot, advance, start
from contracts.examples import finish, series, stages

ACCURACIES = ("test_accuracy", "train_accuracy", "train_random_accuracy")
LOSSES = ("test_loss", "train_loss", "train_random_loss")


def module_of(program: Program, at: Snapshot, lane: int) -> nn.Module:
    """One lane's model as an ordinary module."""
    module = program.net.build().to(program.net.dtype)
    module.load_state_dict({name: leaf[lane] for name, leaf in at.state.model.items()})
    return module.eval()


def plainly(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Mean cross-entropy and percentage of right answers, sample by sample."""
    total, right = 0.0, 0
    with torch.no_grad():
        for sample, label in zip(x, y, strict=True):
            output = module(sample.unsqueeze(0))[0].double()
            total += float(output.logsumexp(0) - output[label])
            right += int(output.argmax() == label)
    return total / len(y), 100 * right / len(y)


@pytest.mark.parametrize(("dtype", "rel"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_metrics_are_those_of_a_plain_loop(dtype: str, rel: float, algorithm: str) -> None:
    common = {"model": "mlp:hidden=8", "algorithm": algorithm, "clients": 12, "participants": 3, "rounds": 4}
    settings = [
        Setting(**common, eval_every=2, dtype=dtype, lr=0.3, seed=seed, partition=partition)
        for seed, partition in ((1, "exdir:C=1,alpha=10"), (2, "dirichlet:alpha=0.5"))
    ]
    program, seen = stages(settings)
    data = datasets.load("digits", 12)
    x, test_x = (part.to(program.net.dtype) for part in (data.x, data.test_x))
    for at in seen[::2]:
        participants = program.order(max(at.round - 1, 0))  # of the round that ended; of the first one before it
        for lane, setting in enumerate(settings):
            module = module_of(program, at, lane)
            owner = owners("digits", setting.partition, 12)
            key = rng.bits(torch.tensor(setting.seed), rng.EVALUATE, at.round)
            anyone = rng.choose(key, 12, 3)
            assert set(anyone.tolist()) != set(participants[lane].tolist())  # else they could not be told apart
            expected = {"test": plainly(module, test_x, data.test_y)}
            for name, clients in (("train", participants[lane]), ("train_random", anyone)):
                mine = torch.from_numpy(np.isin(owner, clients.numpy()))
                expected[name] = plainly(module, x[mine], data.y[mine])
            for name, (loss, accuracy) in expected.items():
                assert series(seen[-1], f"{name}_loss", lane)[at.round] == pytest.approx(loss, rel=rel)
                assert series(seen[-1], f"{name}_accuracy", lane)[at.round] == pytest.approx(accuracy, abs=1e-9)


def test_with_full_participation_all_three_training_metrics_see_all_samples() -> None:
    setting = Setting(clients=5, rounds=1, dtype="float64")
    program, at = finish([setting])
    data = datasets.load("digits", 5)
    loss, accuracy = plainly(module_of(program, at, 0), data.x.double(), data.y)
    for name in ("train", "train_random"):
        assert series(at, f"{name}_loss")[1] == pytest.approx(loss, rel=1e-12)
        assert series(at, f"{name}_accuracy")[1] == pytest.approx(accuracy, abs=1e-9)


def test_random_clients_are_others_at_each_evaluation_and_seed() -> None:
    setting = Setting(clients=100, participants=3, rounds=6, eval_every=1, lr=1e-9)
    _, at = finish([setting, Setting(**{**setting.model_dump(), "seed": 2})])
    for lane in (0, 1):
        assert len(set(series(at, "train_random_loss", lane).values())) == 7  # the model hardly moves: the clients do


def rows(path: Path) -> dict[int, list[str]]:
    """metrics.csv by round, as text."""
    with open(path, newline="") as file:
        header, *found = csv.reader(file)
    return {int(row[0]): [f"{name}={cell}" for name, cell in zip(header, row, strict=True)] for row in found}


@pytest.mark.parametrize("base", [{"model": "mlp"}, {"dataset": "quadratic_random:dim=2,sigma=1"}])
@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_how_often_one_evaluates_changes_nothing(base: dict[str, str], algorithm: str, tmp_path: Path) -> None:
    settings = {
        every: Setting(**base, algorithm=algorithm, clients=6, participants=2, rounds=12, lr=0.05, eval_every=every)
        for every in (1, 3, 5, 100)
    }
    for setting in settings.values():
        baton.run(setting, tmp_path)
    folders = {every: tmp_path / setting.run_id for every, setting in settings.items()}
    often = rows(folders[1] / "metrics.csv")
    state = load_file(folders[1] / "state.safetensors")
    for every in (3, 5, 100):
        table = rows(folders[every] / "metrics.csv")
        taken = [round for round, row in table.items() if not any(cell == "test_loss=" for cell in row)]
        assert taken == [*range(0, 12, every), 12]
        for round in taken:
            assert table[round] == often[round]
        for name, leaf in load_file(folders[every] / "state.safetensors").items():
            assert torch.equal(leaf, state[name])


@pytest.mark.parametrize("model", ["logistic", "mlp"])
def test_the_block_size_changes_nothing(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [
        Setting(model=model, clients=40, participants=2, rounds=1, eval_every=1, dtype="float64", seed=seed)
        for seed in (1, 2)
    ]
    _, whole = finish(settings)
    for outputs, size in ((1, 128 << 20), (50, 128 << 20), (2_000_000, 1), (2_000_000, 60_000)):
        monkeypatch.setattr(evaluate, "BLOCK", outputs)
        monkeypatch.setattr(plain, "BLOCK_BYTES", size)
        _, cut = finish(settings)
        for metric in LOSSES + ACCURACIES:
            for lane in (0, 1):
                assert series(cut, metric, lane) == pytest.approx(series(whole, metric, lane), rel=1e-12)
        for name, leaf in whole.state.model.items():
            assert torch.equal(cut.state.model[name], leaf)


def test_blocks_of_lanes_with_data_sets_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [Setting(dataset=f"quadratic_random:dim=2,seed={seed}", clients=9, rounds=2, lr=0.05) for seed in (1, 2)]
    _, whole = finish(settings)
    monkeypatch.setattr(evaluate, "BLOCK", 1)
    monkeypatch.setattr(plain, "BLOCK_BYTES", 1)
    _, cut = finish(settings)
    for lane in (0, 1):
        assert series(cut, "test_loss", lane) == pytest.approx(series(whole, "test_loss", lane), rel=1e-12)
    assert series(whole, "test_loss", 0) != series(whole, "test_loss", 1)


def test_samples_stored_as_bytes_train_and_measure_as_prepared_ones() -> None:
    common = {"model": "mlp", "clients": 10, "participants": 3, "rounds": 2, "eval_every": 1}
    _, ready = finish([Setting(**common)])
    program, stored = finish([Setting(**common, dataset="user_modules:stored_digits")])
    assert program.clients.x.dtype == program.clients.test_x.dtype == torch.uint8
    for name, leaf in ready.state.model.items():
        torch.testing.assert_close(stored.state.model[name], leaf, rtol=1e-5, atol=1e-5)
    for metric in LOSSES:
        assert series(stored, metric) == pytest.approx(series(ready, metric), rel=1e-5)


@pytest.mark.parametrize("together", [True, False])
def test_participants_without_any_sample_leave_their_metrics_empty(together: bool) -> None:
    """A lane whose participants hold nothing has no training loss; it must not stop the others, nor itself."""
    partition = "dirichlet:alpha=0.01,min_samples=0"
    held = np.bincount(owners("digits", partition, 40), minlength=40)
    assert (held == 0).any()
    common = {"clients": 40, "participants": 1, "rounds": 12, "eval_every": 1}
    lanes = [Setting(**common, partition=partition)] + [Setting(**common, partition="iid")] * together
    program, at = finish(lanes)
    empty = [round for round in range(12) if held[int(program.order(round)[0, 0])] == 0]
    assert empty
    for round in empty:
        assert np.isnan(series(at, "train_loss")[round + 1])
    assert np.isfinite(list(series(at, "test_loss").values())).all()
    assert int(at.diverged[0]) == -1
    if together:
        assert np.isfinite(list(series(at, "train_loss", 1).values())).all()


def generators() -> list[object]:
    state = np.random.get_state()
    return [torch.get_rng_state().tolist(), state[1].tolist(), state[2], random.getstate()]


@pytest.mark.parametrize(
    "base",
    [
        {"model": "mlp", "partition": "exdir:C=2,alpha=10"},
        {"partition": "dirichlet:alpha=0.5", "sampling": "replacement", "algorithm": "parallel"},
        {"dataset": "quadratic_random:dim=2,sigma=1"},
    ],
)
def test_a_run_neither_reads_nor_moves_the_global_generators(base: dict[str, str], tmp_path: Path) -> None:
    setting = Setting(**base, participants=3, rounds=3, eval_every=1)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        datasets.forget()
        tables._owners.cache_clear()
        before = generators()
        baton.run(setting, tmp_path / str(seed))
        assert generators() == before
        folder = tmp_path / str(seed) / setting.run_id
        found.append({p.name: p.read_bytes() for p in folder.iterdir()})
    assert found[0] == found[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it trains on a CUDA device, and there is none here")
def test_a_run_does_not_move_the_generator_of_the_gpu(tmp_path: Path) -> None:
    torch.cuda.manual_seed(12345)  # the seed of no run
    before = torch.cuda.get_rng_state()
    baton.run(Setting(model="mlp", rounds=2), tmp_path, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it trains on a CUDA device, and there is none here")
@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_the_gpu_trains_what_the_cpu_trains(algorithm: str) -> None:
    common = {"model": "mlp", "algorithm": algorithm, "participants": 4, "rounds": 4, "dtype": "float64"}
    settings = [Setting(**common, seed=seed) for seed in (1, 2)]
    _, here = finish(settings)
    program = Program(settings, torch.device("cuda"))
    *_, there = advance(program, start(program))
    for name, leaf in here.state.model.items():
        torch.testing.assert_close(there.state.model[name].cpu(), leaf, rtol=1e-9, atol=1e-11)
    for metric in LOSSES:
        for lane in (0, 1):
            assert series(there, metric, lane) == pytest.approx(series(here, metric, lane), rel=1e-9)


def test_evaluating_leaves_the_parameters_alone() -> None:
    program, at = finish([Setting(model="mlp", rounds=1)])
    before = {name: leaf.clone() for name, leaf in at.state.model.items()}
    first = program.evaluate(at.state.model, 1, program.order(0))
    again = program.evaluate(at.state.model, 1, program.order(0))
    for name, leaf in at.state.model.items():
        assert torch.equal(leaf, before[name])
    assert all(np.array_equal(first[metric], again[metric]) for metric in first)
