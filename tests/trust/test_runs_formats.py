"""Runs of an earlier format are listed and shown as such, and never reused, compared or reported.

tests/stores/0.2.0 was written by version 0.2.0: a run of each method whose rule or weighting has changed since, one on
an Extended Dirichlet partition, and one on arrays passed in Python.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import baton
from baton import cli

pytestmark = pytest.mark.trust

STORE = Path(__file__).parents[1] / "stores" / "0.2.0"
SAME: dict[str, Any] = {"dataset": "breast_cancer", "rounds": 4, "eval_every": 2, "participants": 2}
SAME |= {"local_steps": 2, "batch_size": 8, "lr": 0.1}
METHODS = [
    "amplified_scaffold:every=2",
    "scaffold",
    "scaffold:weighting=size",
    "feddyn",
    "fednova",
    "fedseq:groups=2",
    "fedseqinter:groups=2",
    "parallel",
]
OTHERS = ["exdir", "Data"]


def fields_of(name: str) -> dict[str, Any]:
    """Return the fields of the stored run of a method, of the partition or of the arrays."""
    if name == "exdir":
        return SAME | {"clients": 4, "partition": "exdir:C=1,alpha=10", "algorithm": "parallel"}
    if name == "Data":
        data = baton.Data(np.arange(120.0).reshape(40, 3) % 7, np.arange(40) % 2)
        return SAME | {"dataset": data, "clients": 4, "partition": "iid", "algorithm": "parallel"}
    return SAME | {"algorithm": name}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(STORE, tmp_path / "runs")
    return tmp_path / "runs"


def folders(store: Path) -> set[str]:
    return {path.parent.name for path in store.glob("*/setting.json")}


def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a `baton` command."""
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        cli.main()
    return (end.value.code or 0, *capsys.readouterr())  # type: ignore[return-value]


@pytest.mark.usefixtures("store")
def test_list_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = command(capsys, monkeypatch, "list", "runs", "--json")
    runs = json.loads(out)["runs"]
    assert (code, len(runs)) == (0, 10)
    assert {(run["state"], run["result"]) for run in runs} == {("earlier format", None)}
    code, out, _ = command(capsys, monkeypatch, "list", "runs")
    assert (code, out.count("earlier format")) == (0, 10 + 1)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("run", sorted(folders(STORE)))
def test_show_says_so(run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = command(capsys, monkeypatch, "show", run)
    assert (code, "earlier format" in out.splitlines()[0]) == (0, True)
    assert json.loads((STORE / run / "setting.json").read_text())["algorithm"] in out


@pytest.mark.parametrize("name", [*METHODS, *OTHERS])
def test_run_trains_anew(name: str, store: Path) -> None:
    before = folders(store)
    (run,) = baton.run(baton.Setting(**fields_of(name)), store, quiet=True)
    assert folders(store) == before | {run.id}
    assert run.id not in before


def test_sweep_trains_anew_and_report_leaves_them_out(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = "\n".join(f"{field} = {json.dumps(x)}" for field, x in SAME.items())
    Path("old.toml").write_text(f"[base]\n{base}\n[axes]\nalgorithm = {json.dumps(METHODS)}\n")
    before = folders(store)
    assert command(capsys, monkeypatch, "report", "old.toml")[0] != 0  # nothing of it is trained yet
    assert command(capsys, monkeypatch, "sweep", "old.toml", "--quiet")[0] == 0
    assert len(folders(store) - before) == len(METHODS)
    code, _, err = command(capsys, monkeypatch, "report", "old.toml")
    assert (code, [line for line in err.splitlines() if "earlier format" in line]) == (0, [err.splitlines()[0]])
    assert "10 runs" in err


def test_two_of_them_are_not_compared(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = command(capsys, monkeypatch, "compare", *sorted(folders(store))[:2])
    assert (code, len(err.splitlines())) == (2, 1)
    assert "format" in err
    assert "traceback" not in err.lower()
