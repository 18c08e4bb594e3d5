"""The ledger books what an algorithm says that it sends, and marks what it infers as an upper bound."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import baton
from baton import cli
from test_usercode import forget

pytestmark = pytest.mark.trust

HEADS = """
from baton.algorithms.base import Algorithm
from baton.seam import State

def round(state, order, sites):
    reply = sites.train(state.model, order)
    kept = {n: leaf.mean(1) if "bias" in n else state.model[n] for n, leaf in reply.x.items()}
    return State(kept, state.server)

def whole():
    return Algorithm(round)

def biases():
    return Algorithm(round, sends=("bias",))

def compressed():
    return Algorithm(round, sends=40)
"""
WORDS = ["-d", "digits", "-M", "10", "-S", "5", "-R", "4"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "heads.py").write_text(HEADS)
    forget(tmp_path)
    yield tmp_path
    forget(tmp_path)


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["baton", "ledger", *WORDS, *words])
    with pytest.raises(SystemExit):
        cli.main()
    return capsys.readouterr().out


@pytest.mark.usefixtures("mine")
def test_what_is_inferred_is_marked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "upper bound" in told(monkeypatch, capsys, "-a", "heads:whole")
    shown = json.loads(told(monkeypatch, capsys, "-a", "heads:whole", "--json"))
    assert shown["algorithms"]["heads:whole"]["upper_bound"] is True


@pytest.mark.parametrize("name", ["biases", "compressed"])
def test_what_is_said_is_booked(
    name: str, mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = told(monkeypatch, capsys, "-a", f"heads:{name}", "--json")
    assert json.loads(out)["algorithms"][f"heads:{name}"]["round"] == {"up": 200, "down": 200, "peer": 0}
    setting = baton.Setting(dataset="digits", clients=10, participants=5, rounds=4, algorithm=f"heads:{name}")
    (run,) = baton.run(setting, mine / "runs", quiet=True)
    assert (run.metrics["bytes_up"][-1], run.metrics["bytes_down"][-1]) == (4 * 5 * 40, 4 * 5 * 40)
