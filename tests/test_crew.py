"""A grid by several hands: shards, devices, a scheduler. The store then holds what one process would have made."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fake_slurm
from baton.cli import app
from baton.crew import devices, where
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Chunk, Laid, Store
from baton.sweep import Cut, Shard, plan
from processes import start

STUDY = """
[base]
dataset = "digits"
model = "mlp:hidden=8"
rounds = {rounds}
eval_every = 40
clients = 5
participants = 2
local_steps = 2
[axes]
algorithm = ["sequential", "scaffold"]
lr = [0.03, 0.1]
seed = [1, 2]
"""
ROOT = Path(__file__).parents[1]


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("[0-9a-f]*/*"))}


def words(study: Path, runs: Path, *more: str) -> list[str]:
    options = ["--runs", str(runs), "--cores", "1", "--quiet", "--checkpoint-seconds", "0.05", *more]
    return [sys.executable, "-m", "baton", "sweep", str(study), *options]


def whole(folder: Path, rounds: int, parts: int = 4) -> tuple[Path, dict[str, bytes]]:
    """A study, and what one process makes of it."""
    study = folder / "study.toml"
    study.write_text(STUDY.format(rounds=rounds))
    subprocess.run(words(study, folder / "plain", "--parts", str(parts)), check=True)
    return study, files(folder / "plain")


@given(st.integers(1, 12), st.integers(1, 30))
def test_work_is_cut_into_at_least_so_many_parts_as_far_as_there_are_lanes(lanes: int, parts: int) -> None:
    import torch

    settings = [Setting(dataset="quadratic", rounds=3, seed=seed) for seed in range(lanes)]
    found = plan(settings, Store("/nowhere"), torch.device("cpu"), 1 << 33, cut=Cut(parts, 1))
    sizes = [len(chunk) for chunk in found.chunks]
    assert len(sizes) == min(lanes, parts)
    assert sorted(s.run_id for chunk in found.chunks for s in chunk) == sorted(s.run_id for s in settings)
    assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(0, 2**32 - 1), unique=True, max_size=20), st.integers(1, 5))
def test_shards_begin_apart_and_each_comes_to_everything(names: list[int], of: int) -> None:
    laid = Laid([], [], "cpu", "fp32", 1.0, 0, 0, "", {})
    chunks = [Chunk(Path(f"0-{name:08x}"), laid) for name in names]
    orders = [Shard(number, of).order(chunks) for number in range(1, of + 1)]
    assert all(sorted(order) == sorted(chunks) for order in orders)
    own = [name for number in range(of) for name in names if name % of == number]
    firsts = [order[: sum(name % of == number for name in names)] for number, order in enumerate(orders)]
    assert [int(c.folder.name[2:], 16) for first in firsts for c in first] == own


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--on", "spark"], "on: 'spark'; ray, ray:local, ray:HOST:PORT or ray://HOST:PORT is right"),
        (["--on", "ray:nowhere"], "'nowhere' is no address of a cluster"),
        (["--shard", "0/4"], "shard: '0/4'; I/N with I from 1 to N is right"),
        (["--shard", "5/4"], "shard: '5/4'; I/N"),
        (["--shard", "1/2", "--on", "ray"], "one of them is right"),
        (["--shard", "1/2", "--device", "cpu,cpu"], "a shard a device is right"),
        (["--device", "cuda:x"], "device: 'cuda:x'; auto, cpu, cuda, cuda:0,1 or all is right"),
        (["--device", "cuda:99"], "there is no cuda:99"),
        (["--device", "cpu,cpu", "--on", "ray:127.0.0.1:1"], "Ray knows the machines' GPUs"),
        (["--on", "ray:127.0.0.1:1"], "on: no cluster answers at 127.0.0.1:1"),
    ],
)
def test_bad_places_end_in_one_line(options: list[str], line: str, tmp_path: Path) -> None:
    if "ray:127" in options[-1]:
        pytest.importorskip("ray", reason="Ray is not installed")
    command = [sys.executable, "-m", "baton", "sweep", "quadratics", "--runs", str(tmp_path / "runs"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert line in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["tune digits", "compare -d digits", "advise -d digits"])
def test_all_that_train_grids_take_a_place(command: str) -> None:
    done = CliRunner().invoke(app, [*command.split(), "--on", "spark"])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception).startswith("on: 'spark'; ray,")


def test_devices_see_one_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert devices.several("all") == ["cuda:0", "cuda:1", "cuda:2"]
    assert devices.several("cuda:0,2") == ["cuda:0", "cuda:2"]
    assert devices.several("cuda") == []
    with pytest.raises(BadInput, match="no cuda:3; 3 GPUs are here"):
        devices.several("cuda:1,3")
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    assert devices.environment("cuda:2", 2) == {devices.VISIBLE: "2"}
    monkeypatch.setenv(devices.VISIBLE, "5,7,GPU-1")
    assert devices.environment("cuda:1", 2) == {devices.VISIBLE: "7"}
    assert where("ray://head:10001").on == "ray://head:10001"
    assert where("ray:head:6379").on == "head:6379"


def begun(runs: Path) -> list[Path]:
    return list(runs.glob(".work/chunks/*/at-*"))


def child(parent: int, runs: Path) -> int:
    """A process that another started, once some chunk has a checkpoint."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if found and begun(runs):
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("nothing was begun")


def test_two_devices_and_one_of_their_processes_killed(tmp_path: Path) -> None:
    study, wanted = whole(tmp_path, 1000)
    runs = tmp_path / "runs"
    with start(words(study, runs, "--parts", "4", "--device", "cpu,cpu"), stderr=subprocess.PIPE) as process:
        os.kill(child(process.pid, runs), signal.SIGKILL)
        said = process.communicate(timeout=120)[1].decode()
        assert process.returncode == 0, said
    assert "ended early (signal 9)" in said
    assert files(runs) == wanted


@pytest.mark.long
def test_a_signal_goes_on_to_all_devices_and_the_same_command_goes_on(tmp_path: Path) -> None:
    study, wanted = whole(tmp_path, 1000)
    runs = tmp_path / "runs"
    command = words(study, runs, "--parts", "4", "--device", "cpu,cpu", "--checkpoint-seconds", "0.05")
    with start(command, stderr=subprocess.PIPE) as process:
        one = child(process.pid, runs)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 130, said
    assert "the same command goes on from here" in said
    assert not Path(f"/proc/{one}").exists()
    assert files(runs) != wanted
    subprocess.run(command, check=True, timeout=120)
    assert files(runs) == wanted


@pytest.mark.long
def test_an_array_of_jobs_that_run_out_of_time(tmp_path: Path) -> None:
    """docs/slurm.sbatch under a scheduler that stops jobs twice and starts them again."""
    study, wanted = whole(tmp_path, 1000)
    baton = tmp_path / "baton"
    options = "--cores 1 --parts 4 --quiet --checkpoint-seconds 0.05"
    baton.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m baton "$@" {options}\n')
    baton.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "STUDY": str(study), "RUNS": str(tmp_path / "runs")}
    os.environ["PATH"], before = path.pop("PATH"), os.environ["PATH"]
    try:
        codes = fake_slurm.run(ROOT / "docs" / "slurm.sbatch", tmp_path, 2, path, lambda: begun(tmp_path / "runs"), 2)
    finally:
        os.environ["PATH"] = before
    assert sorted(codes) == [0, 0, 143, 143]
    assert files(tmp_path / "runs") == wanted
