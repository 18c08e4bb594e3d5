"""The command line as a user types it, kill -9 and Ctrl-C included."""

import inspect
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pydantic_core import SchemaError, SchemaValidator
from typer.testing import CliRunner

import processes
from baton import cli
from baton.fields import FIELDS
from baton.setting import Setting
from baton.store import History
from baton.sweep import call, progress

SMALL = ["-M", "5", "-S", "2", "-K", "2", "-R", "6", "--eval-every", "3"]


def baton(*words: str | Path, cwd: Path | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "baton", *map(str, words)], capture_output=True, text=True, cwd=cwd, timeout=300
    )
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.glob("*/*")) if p.parent.name != ".work"}


def test_a_field_is_a_flag() -> None:
    flags = set(inspect.signature(cli.train.run).parameters)
    assert set(Setting.model_fields) == set(FIELDS) < flags
    text = baton("run", "--help").stdout
    for name, field in FIELDS.items():
        assert f"--{name.replace('_', '-')} " in text
        assert not field.letter or f" -{field.letter} " in text


def test_help_tells_the_defaults_that_a_setting_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text, plain = baton("run", "--help").stdout, Setting()
    for name, field in FIELDS.items():
        assert field.help in text
        assert f"[{field.default}]." in text
        value = getattr(plain, name)
        assert field.default in (str(value), f"{value:g}" if isinstance(value, float) else "", "all", "the data set's")
    assert "--memory" in text
    assert "[default: half of what is free]" in text


def test_run_show_list(tmp_path: Path) -> None:
    shown = baton("run", *SMALL, "--lr", "0.5", "--runs", tmp_path / "r").stdout
    run_id = Setting(clients=5, participants=2, local_steps=2, rounds=6, eval_every=3, lr=0.5).run_id
    assert run_id in shown
    assert "complete" in shown
    found = json.loads(baton("show", run_id[:6], "--runs", tmp_path / "r", "--json").stdout)
    assert found["metrics"]["round"] == [0, 3, 6]
    assert found["setting"]["lr"] == 0.5
    assert "1 complete" in baton("list", "--runs", tmp_path / "r").stdout
    listed = json.loads(baton("list", "--runs", tmp_path / "r", "--json").stdout)
    assert [run["run"] for run in listed["runs"]] == [run_id]
    assert any(name.startswith("sequential") for name in listed["algorithms"])
    assert baton("list", "models").stdout.splitlines()[0] == "models:"


def test_list_shows_where_models_may_be_cut() -> None:
    text = baton("list", "models").stdout
    assert "logistic on samples of 1 x 28 x 28: cannot be cut" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("  0.5 ")]
    assert " ".join(row) == "0.5 MaxPool2d 16 x 4 x 4 = 256 2,572 41,854"
    listed = json.loads(baton("list", "models", "-m", "mlp:hidden=6", "-d", "digits", "--json").stdout)
    layers = {"1": "Linear", "2": "Dropout", "3": "ReLU"}
    shown = [{"name": n, "layer": kind, "shape": [6], "client": 390, "server": 70} for n, kind in layers.items()]
    assert listed["cuts"] == {"mlp:hidden=6": shown}


def test_smash_noise_is_an_option_of_the_algorithm(tmp_path: Path) -> None:
    words = ["run", *SMALL, "-m", "mlp", "-a", "ssl:cut=1", "--smash-noise", "0.1", "--json", "--runs", tmp_path]
    assert json.loads(baton(*words).stdout)["setting"]["algorithm"] == "ssl:cut=1,smash_noise=0.1"


def test_run_prints_json(tmp_path: Path) -> None:
    done = baton("run", *SMALL, "-d", "quadratic", "-M", "2", "--json", "--runs", tmp_path)
    found = json.loads(done.stdout)
    assert found["complete"]
    assert found["metrics"]["distance"][0] == 10.0
    assert found["metrics"]["test_accuracy"][0] is None
    assert done.stderr == ""


def test_quiet_says_nothing(tmp_path: Path) -> None:
    done = baton("run", *SMALL, "--quiet", "--runs", tmp_path)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "--lr", "-1"], "lr: -1.0"),
        (["run", "-M", "3", "-S", "4"], "participants: 4 is more than clients = 3"),
        (["run", "-d", "digit"], "did you mean 'digits'?"),
        (["run", "-d", "quadratic", "-M", "3"], "clients: 3; the quadratic pair has exactly 2"),
        (["run", "-d", "quadratic", "-m", "mlp"], "model: 'mlp' takes labelled samples"),
        (["run", "-m", "quadratic"], "model: 'quadratic' fits only the quadratic data sets"),
        (["run", "-d", "quadratic", "-p", "iid"], "this data set's own clients are 'natural'"),
        (["run", "-p", "natural"], "partition: 'natural' needs data that comes with its clients"),
        (["run", "-M", "2000"], "clients: 2000 is more than the 1437 training samples"),
        (["run", "-p", "dirichlet:alpha=0.001", "-M", "100"], "take a larger alpha, fewer clients"),
        (["run", "-p", "exdir:C=11,alpha=1"], "partition: exdir has C=11"),
        (["run", "--device", "tpu"], "device: 'tpu'"),
        (["run", "--memory", "lots"], "memory: 'lots' is not a size"),
        (["run", "--memory", "1K"], "memory: 1.0 KiB is too little"),
        (["sweep", "nothing.toml"], "study: no file 'nothing.toml'"),
        (["report", "quadratics"], "report: no complete run of study 'quadratics'"),
        (["show", "123"], "run: '123': no such run"),
        (["list", "modles"], "did you mean 'models'?"),
        (["run", "--runs", "a_file"], "runs: 'a_file' is a file"),
        (["run", "-a", "ssl"], "algorithm: ssl needs cut, as in ssl:cut=1"),
        (["run", "-a", "ssl:cut=1"], "algorithm: model 'logistic' cannot be cut: no layer has parameters both before"),
        (["run", "-m", "mlp", "-a", "ssl:cut=8"], "algorithm: cut=8 is not a layer of 'mlp'; did you mean '3'?"),
        (["run", "-m", "mlp", "-a", "splitfed:cut=1,head=2"], "algorithm: head=2 leaves the server without parameters"),
        (["run", "--smash-noise", "0.1"], "algorithm: sequential has no parameter 'smash_noise'"),
        (["run", "-a", "ssl:cut=1,smash_noise=1", "--smash-noise", "2"], "gives 'smash_noise' twice"),
        (["list", "-m", "mlp"], "list: --model goes with 'models'"),
        (["list", "models", "-d", "digits"], "list: --model goes with 'models', and --dataset with --model"),
        (["list", "models", "-m", "mpl"], "did you mean 'mlp'?"),
        (["list", "runs", "--where", "M"], "where: 'M'; field=value is right"),
        (["list", "runs", "--where", "clint=3"], "list: no field 'clint'; did you mean 'clients'?"),
        (["list", "runs", "--sort", "reslt"], "list: no field 'reslt'; did you mean 'result'?"),
        (["list", "models", "--sort", "lr"], "--sort go with 'runs'"),
        (
            ["export", "--to", "parquet", "--out", "-"],
            "out: '-' is standard output, which takes text",
        ),
        (["advise", "--lr", "1"], "lr: 1.0 is given, but it is what 'baton advise' finds"),
        (["leak", "123"], "run: '123': no such run"),
        (["report", "quadratics", "--up", "0"], "up: 0; a finite number above 0 is right"),
        (["ledger", "-m", "mlp", "-a", "ssl:cut=8"], "algorithm: cut=8 is not a layer of 'mlp'"),
        (["ledger", "--client-flops", "inf"], "client_flops: inf; a finite number above 0 is right"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert line in shown.err
    assert shown.err.startswith("baton: ")
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "runs") == ["a_file"]


def test_a_users_own_model_beside_the_command(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from torch import nn\ndef net(shape, classes, *, bias=True):\n"
                                      "    return nn.Linear(shape[0], classes, bias=bias)\n")  # fmt: skip
    words = [Path(sys.executable).parent / "baton", "run", *SMALL, "--model", "mine:net:bias=false", "--json"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["setting"]["model"] == "mine:net:bias=false"


def test_unknown_flag_and_command(tmp_path: Path) -> None:
    assert "No such option" in baton("run", "--lrr", "1", cwd=tmp_path, code=2).stderr
    assert "No such command" in baton("runn", cwd=tmp_path, code=2).stderr


def test_cuda_asked_for_and_absent(tmp_path: Path) -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", "baton", "run", "--device", "cuda"],
        capture_output=True, text=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert "device: 'cuda' is not here; auto or cpu is right" in done.stderr


STUDY = """
[base]
clients = 5
participants = 2
model = "mlp"
rounds = {rounds}
eval_every = 5
[axes]
algorithm = ["sequential", "parallel"]
lr = [0.01, 0.1]
seed = [1, 2]
"""


def test_dry_run_counts_and_trains_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY.format(rounds=40))
    found = json.loads(baton("sweep", "s.toml", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert {key: found[key] for key in ("runs", "complete", "programs", "chunks", "lanes", "steps", "samples")} == {
        "runs": 8, "complete": 0, "programs": 2, "chunks": 2, "lanes": [4, 4],
        "steps": 8 * 40 * 2 * 5, "samples": 8 * 40 * 2 * 5 * 20,
    }  # fmt: skip
    text = baton("sweep", "s.toml", "--dry-run", "--memory", "1MB", cwd=tmp_path).stdout
    assert "8 runs, 0 complete; 8 lanes in 2 programs" in text
    assert "3,200 SGD steps" in text
    assert not (tmp_path / "runs").exists()


def test_bad_input_from_a_shell(tmp_path: Path) -> None:
    done = baton("run", "--lr", "-1", cwd=tmp_path, code=2)
    assert done.stderr == "baton: lr: -1.0 is not right: input should be greater than 0\n"


def start(folder: Path) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    words = ["sweep", "s.toml", "--quiet", "--checkpoint-seconds", "0.1"]
    return processes.start([sys.executable, "-m", "baton", *words], folder, stderr=subprocess.PIPE)


def in_flight(folder: Path) -> bool:
    return any((folder / "runs" / ".work").glob("chunks/[!.]*/at-*.safetensors"))


def test_kill_9_at_any_moment_and_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("whole", "pieces"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "s.toml").write_text(STUDY.format(rounds=1500))
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    with start(whole) as process:
        assert process.wait(timeout=300) == 0
    killed, chance = 0, random.Random(7)
    for _ in range(60):
        with start(pieces) as process:
            deadline = time.monotonic() + 60
            while process.poll() is None and not in_flight(pieces) and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.8))
            if process.poll() is None and killed < 4:
                process.kill()
                killed += 1
            if process.wait(timeout=300) == 0:
                break
    assert killed >= 2
    assert files(pieces / "runs") == files(whole / "runs")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "s.toml").write_text(STUDY.format(rounds=100_000))
    with start(tmp_path) as process:
        deadline = time.monotonic() + 60
        while not in_flight(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(how)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + how
    assert b"stopped; the same command goes on from here" in errors
    assert b"Traceback" not in errors
    assert in_flight(tmp_path)


def test_list_says_what_each_does_in_lines_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(*words: str) -> str:
        return CliRunner().invoke(cli.app, ["list", *words], catch_exceptions=False).stdout

    monkeypatch.setenv("COLUMNS", "80")
    rooms = ["datasets", "partitions", "algorithms", "schedules", "lr_schedules"]
    rooms += ["failures", "policies", "dp", "metrics"]
    names = listed().splitlines()
    assert [line for line in names if not line.startswith(" ")][:-2] == [
        f"{r}:" for r in [*rooms[:2], "models", *rooms[2:]]
    ]
    for room in rooms:
        lines = listed(room).splitlines()
        assert lines[0] == f"{room}:"
        assert max(map(len, lines)) <= 80
        found = json.loads(listed(room, "--json"))
        assert len(found[room]) == len(found["about"]) > 1
        text = " ".join(" ".join(lines).split())
        for spec, (name, about) in zip(found[room], found["about"].items(), strict=True):
            assert spec.partition(":")[0] == name
            assert about["says"].endswith(".")
            assert " ".join(about["says"].split()) in text
            assert spec in text.replace(", ", ",")
    lines = listed("algorithms").splitlines()
    at = lines.index("  fedprox:mu=0.01,weighting=uniform")
    assert lines[at + 1].startswith("      Each local step adds mu (x - the round's model)")
    assert lines[at + 2].endswith(" Lanes: mu.")
    assert json.loads(listed("algorithms", "--json"))["about"]["fedavgm"]["lanes"] == [
        "beta",
        "server_lr",
    ]


@pytest.mark.long
def test_runs_are_chosen_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(STUDY.format(rounds=10))
    baton("sweep", "s.toml", "-q", cwd=tmp_path)

    def listed(*words: str) -> list[dict[str, object]]:
        return list(json.loads(baton("list", "runs", *words, "--json", cwd=tmp_path).stdout)["runs"])

    assert len(listed()) == 8
    assert {run["algorithm"] for run in listed("-a", "parallel", "--where", "S=2")} == {"parallel"}
    assert {run["lr"] for run in listed("--where", "lr=1e-1", "--where", "seed=2")} == {0.1}
    assert listed("-d", "mnist") == listed("--where", "state=diverged") == []
    results = [run["result"] for run in listed("--sort", "result")]
    assert results == sorted(results, reverse=True)
    assert {run["metric"] for run in listed()} == {"test_accuracy"}
    for run in listed():
        found = json.loads(baton("show", str(run["run"]), "--json", cwd=tmp_path).stdout)
        assert found["metrics"]["test_accuracy"][-1] == run["result"]
        break
    assert [run["seed"] for run in listed("--sort", "seed")] == [1] * 4 + [2] * 4
    table = baton("export", "--to", "csv", "--out", "-", cwd=tmp_path).stdout
    baton("export", "--to", "csv", "--out", "x.csv", "-q", cwd=tmp_path)
    assert table == (tmp_path / "x.csv").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["bounds"],
        pytest.param(["bounds", "--table"], marks=pytest.mark.long),
        ["constants", "-d", "quadratic", "--only", "L"],
        pytest.param(["drift", "-d", "quadratic", "-R", "2", "--draws", "2"], marks=pytest.mark.long),
        pytest.param(["advise", "-d", "quadratic", "-R", "4", "--no-bounds"], marks=pytest.mark.long),
    ],
)
def test_quiet_keeps_the_answer(words: list[str], tmp_path: Path) -> None:
    done = baton(*words, "-q", cwd=tmp_path)
    assert len(done.stdout.splitlines()) > 2
    assert done.stdout == baton(*words, cwd=tmp_path).stdout
    assert done.stderr == ""


def test_progress_shows_the_metric_and_memory_only_where_it_is_the_reason() -> None:
    history = History().then(3, {"test_accuracy": np.array([50.0, 75.5, np.nan]), "test_loss": np.ones(3)})
    assert progress.measured(history) == ["test accuracy 50.00% to 75.50%"]
    assert progress.measured(History().then(3, {"test_loss": np.array([0.25])})) == ["test loss 0.25"]
    assert progress.measured(History()) == progress.measured(None) == []
    assert call._cut([1], 1, 1 << 30) == "training 1 run"
    assert call._cut([3, 4], 2, 1 << 30) == "training 7 runs in 2 chunks of at most 4"
    assert call._cut([3, 4], 1, 1 << 30) == "training 7 runs in 2 chunks of at most 4, to fit 1.0 GiB"


def test_ctrl_c_while_classes_are_built_ends_as_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pydantic makes an error of its own of it, which names it."""
    monkeypatch.setattr(cli, "app", partial(SchemaValidator, {"type": "KeyboardInterrupt"}))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    monkeypatch.setattr(cli, "app", partial(SchemaValidator, {"type": "something else"}))
    with pytest.raises(SchemaError):
        cli.main()
