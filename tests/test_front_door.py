"""`import baton`: what there is, what comes back from a run, and what the shell completes."""

import ast
import inspect
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import baton
from baton import datasets
from baton.cli import complete
from baton.setting import ROOMS

SMALL = {"clients": 4, "rounds": 6, "eval_every": 3}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> baton.Runs:
    settings = [baton.Setting(**SMALL, algorithm=a, seed=s) for a in ("sequential", "parallel") for s in (1, 2)]
    return baton.run(settings, tmp_path_factory.mktemp("runs"), quiet=True)


def test_what_there_is() -> None:
    assert set(baton.__all__) <= set(dir(baton))
    for name in baton.__all__:
        assert inspect.getdoc(getattr(baton, name)), name
    for name in ("run", "tune", "compare", "advise", "Setting", "Study", "theory"):
        assert name in dir(baton)
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        _ = baton.runn


def test_the_types_are_of_what_there_is() -> None:
    stub = Path(baton.__file__).with_suffix(".pyi").read_text()
    named = {alias.asname for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert named == set(baton.__all__) == set(baton._HOMES)


def test_completion_and_help_load_nothing_heavy() -> None:
    code = "import sys, baton; dir(baton); print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"


@pytest.mark.long  # mypy reads all of torch
def test_types_are_there_for_mypy(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(
        "import baton\nruns = baton.run(baton.Setting())\nreveal_type(runs[0].setting.lr)\nreveal_type(baton.advise)\n"
        "reveal_type(runs[1:])\n"
    )
    env = {**os.environ, "MYPYPATH": str(Path(baton.__file__).parents[1])}
    words = [sys.executable, "-m", "mypy", "--follow-imports", "silent", "use.py"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert 'Revealed type is "float"' in done.stdout.replace("builtins.", ""), done.stdout
    assert "trained.Runs" in done.stdout
    assert "Any" not in done.stdout


def test_runs_are_a_sequence(runs: baton.Runs) -> None:
    assert len(runs) == 4
    assert isinstance(runs[1:3], baton.Runs)
    assert [run.setting.seed for run in runs] == [1, 2, 1, 2]
    assert runs[0].complete
    assert runs[0].last() == runs[0].metrics["test_accuracy"][-1]
    assert repr(runs).splitlines()[0] == "4 runs"
    assert runs._repr_html_().count("<tr>") == 5
    with pytest.raises(baton.BadInput, match="did you mean 'test_loss'"):
        runs[0].last("test_los")


def test_runs_are_compared(runs: baton.Runs, tmp_path: Path) -> None:
    found = runs.compare(out=tmp_path / "page")
    assert {line.name for line in found.lines} == {"sequential", "parallel"}
    for line in found.lines:
        own = [run.last("test_accuracy") for run in runs if run.setting.algorithm == line.value]
        assert line.mean == pytest.approx(np.mean(own))
    assert found.verdict.split()[0] in str(found)
    assert "digits, logistic, iid: M = 4, S = 4, K = 5, R = 6" in str(found)
    assert (tmp_path / "page" / "index.html").exists()
    with pytest.raises(baton.BadInput, match="all are runs of one setting"):
        runs[:2].compare()
    with pytest.raises(baton.BadInput, match="no runs"):
        runs[:0].compare()
    elsewhere = baton.run(baton.Setting(**SMALL, lr=0.2), tmp_path / "runs", quiet=True)
    with pytest.raises(baton.BadInput, match="runs of several stores"):
        baton.Runs([*runs, *elsewhere]).compare()


@pytest.mark.skipif(not find_spec("pandas"), reason="pandas, which tables are made with, is not installed here")
def test_every_site_is_a_row(runs: baton.Runs, tmp_path: Path) -> None:
    (run,) = baton.run(baton.Setting(dataset="breast_cancer", rounds=2, eval_every=1), tmp_path, quiet=True)
    table = run.sites()
    assert len(table) == 3 * 4
    last = table[table["round"] == 2]
    assert last["site"].tolist() == ["north", "south", "east", "west"]
    assert (last["n"] * last["accuracy"]).sum() / last["n"].sum() == pytest.approx(run.last("test_accuracy"))
    assert last["auc"].mean() == pytest.approx(run.last("site_auc_mean"))
    with pytest.raises(baton.BadInput, match="none were measured in this run"):
        runs[0].sites()


@pytest.mark.skipif(not find_spec("pandas"), reason="pandas, which tables are made with, is not installed here")
def test_a_frame_has_what_was_measured(runs: baton.Runs) -> None:
    table = runs.frame()
    assert len(table) == 4 * 3
    assert set(table["algorithm"]) == {"sequential", "parallel"}
    one = table[table["run"] == runs[2].id]
    assert one["test_loss"].tolist() == runs[2].metrics["test_loss"].tolist()
    assert runs[2].frame()["round"].tolist() == [0, 3, 6]


def test_without_pandas_it_is_one_line(runs: baton.Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(baton.BadInput, match=r"pip install 'baton-fl\[frame\]'"):
        runs.frame()


def test_a_picture(runs: baton.Runs, tmp_path: Path) -> None:
    picture = runs.plot()
    assert picture._repr_png_().startswith(b"\x89PNG")
    picture.save(tmp_path / "x.svg")
    assert "sequential" in [text.get_text() for text in picture.figure.legends[0].get_texts()]
    (ax,) = runs[:2].plot("test_loss").figure.axes
    both = np.mean([run.metrics["test_loss"] for run in runs[:2]], axis=0)
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata()), both)


def test_the_module_is_the_trained_one(runs: baton.Runs) -> None:
    data = datasets.load("digits", 4)
    for run in runs:
        labels = run.predict(data.test_x)
        assert 100 * (labels == data.test_y.numpy()).mean() == pytest.approx(run.last("test_accuracy"))
        module = run.module()
        assert isinstance(module, torch.nn.Module)
        assert not module.training
        with torch.no_grad():
            loss = data.loss(module(datasets.prepared(data, data.test_x, torch.float32)), data.test_y).mean()
        assert float(loss) == pytest.approx(run.last("test_loss"), rel=1e-5)
    assert runs[0].predict(data.test_x[:3], outputs=True).shape == (3, 10)
    with pytest.raises(baton.BadInput, match=r"x: of shape \(2, 3\); \(n, 64\), n samples of digits, is right"):
        runs[0].predict(np.zeros((2, 3)))


def test_models_of_clients_own_and_of_one_logit(tmp_path: Path) -> None:
    data = datasets.load("breast_cancer", 4)
    common = {"dataset": "breast_cancer", "rounds": 4}
    settings = [baton.Setting(**common, algorithm="alone"), baton.Setting(**common, model=torch.nn.Linear(30, 1))]
    alone, logit = baton.run(settings, tmp_path, quiet=True)
    assert data.test_owner is not None
    answers = np.stack([alone.predict(data.test_x, client=m) for m in range(4)])[data.test_owner, range(114)]
    assert 100 * (answers == data.test_y.numpy()).mean() == pytest.approx(alone.last("test_accuracy"))
    assert 100 * (logit.predict(data.test_x) == data.test_y.numpy()).mean() == pytest.approx(logit.last())
    with pytest.raises(baton.BadInput, match="in alone each has a model of its own: 0 to 3 is right"):
        alone.module()
    with pytest.raises(baton.BadInput, match="has one model for all: none is right"):
        logit.module(client=0)


def test_advice_is_said_in_words(tmp_path: Path) -> None:
    found = baton.advise(baton.Setting(**SMALL), budget="100%", seeds=1, runs=tmp_path, quiet=True)
    assert str(found).startswith(("sequential with lr", "parallel with lr", "too close"))
    assert len(found.probe) == len({run.id for run in found.probe}) > 4
    assert callable(baton.advise)  # still, now that its room is loaded


@pytest.mark.parametrize("field", complete.ROOMS)
def test_completion_knows_every_name(field: str) -> None:
    assert complete.names(field) == list(ROOMS[field])


def completed(line: str) -> list[str]:
    env = {
        **os.environ,
        "_BATON_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    code = "import sys; sys.argv[0] = 'baton'; from baton.cli import app; app(prog_name='baton')"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    return done.stdout.split()


def test_the_shell_completes_names() -> None:
    assert completed("baton run -d dig") == ["digits"]
    assert "fedprox" in completed("baton run --algorithm fed")
    assert "digits" in completed("baton sweep dig")
    assert "crossover" in completed("baton cro")
    assert "_baton_completion" in subprocess.run(
        [sys.executable, "-c", "from baton.cli import app; app(prog_name='baton')", "--show-completion", "bash"],
        capture_output=True, text=True, env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    ).stdout  # fmt: skip
