"""A user's own code draws by key, or is refused with its file and line: a lane gives what it gives alone."""

from pathlib import Path
from typing import Any

import pytest

import baton
from test_usercode import forget

pytestmark = pytest.mark.trust

SAME: dict[str, Any] = {"dataset": "breast_cancer", "rounds": 4, "eval_every": 2, "local_steps": 2, "batch_size": 8}

ROUND = """
import random

import numpy as np
import torch
from baton.algorithms.base import Algorithm
from baton.seam import State

def noisy():
    def round(state, order, sites):
        x = state.model
        for client in order:
            x = sites.train(x, client).x
        noise = {n: DRAW for n, leaf in x.items()}  # draws
        return State({n: leaf + 0.01 * noise[n] for n, leaf in x.items()}, state.server)
    return Algorithm(round)
"""
DRAWS = {
    "torch": "torch.randn(leaf.shape)",
    "numpy": "torch.tensor(np.random.normal(size=tuple(leaf.shape)), dtype=leaf.dtype)",
    "Python": "torch.full(leaf.shape, random.random())",
}
PARTITION = """
import numpy as np

def cut(labels, clients):
    np.random.seed(0)
    return np.random.randint(0, clients, len(labels))  # draws
"""
METRIC = """
import torch
from baton.metrics.base import Metric

def shaky(task):
    def of(outputs, labels, weight=None):
        return torch.rand(len(outputs))  # draws
    return Metric(of)

def plain(task):
    return lambda outputs, labels: float(torch.rand(()))
"""
MODEL = """
import random

import numpy as np
import torch
from torch import nn

class Noisy(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        x = x + 0.1 * DRAW  # draws
        return self.head(x)

def net(shape, classes):
    return Noisy(shape[0], classes)
"""
INPUTS = {
    "torch": "torch.randn(x.shape)",
    "numpy": "float(np.random.rand())",
    "Python": "random.random()",
}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes a module of the user's own, and returns the line that draws."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, text: str) -> int:
        (tmp_path / f"{name}.py").write_text(text)
        forget(tmp_path)
        return next(n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# draws"))

    yield write
    forget(tmp_path)


def refused(tmp_path: Path, fields: dict[str, Any]) -> str:
    with pytest.raises(baton.BadInput) as error:
        baton.run(baton.Setting(**SAME | fields), tmp_path / "runs", quiet=True)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


@pytest.mark.parametrize("whose", DRAWS)
def test_a_round_that_draws_is_refused(whose: str, tmp_path: Path, mine: Any) -> None:
    line = mine("drawing", ROUND.replace("DRAW", DRAWS[whose]))
    said = refused(tmp_path, {"algorithm": "drawing:noisy"})
    assert f"drawing.py, line {line}" in said
    assert whose in said


def test_a_partition_that_draws_is_refused(tmp_path: Path, mine: Any) -> None:
    line = mine("drawing", PARTITION)
    said = refused(tmp_path, {"dataset": "digits", "partition": "drawing:cut"})
    assert f"drawing.py, line {line - 1}" in said  # the seeding


@pytest.mark.parametrize(("name", "after"), [("shaky", 0), ("plain", 4)])
def test_a_metric_that_draws_is_refused(name: str, after: int, tmp_path: Path, mine: Any) -> None:
    line = mine("drawing", METRIC)
    assert f"drawing.py, line {line + after}" in refused(tmp_path, {"metrics": f"drawing:{name}"})


@pytest.mark.parametrize("whose", INPUTS)
def test_a_model_that_draws_is_refused(whose: str, tmp_path: Path, mine: Any) -> None:
    line = mine("drawing", MODEL.replace("DRAW", INPUTS[whose]))
    said = refused(tmp_path, {"model": "drawing:net"})
    assert f"drawing.py, line {line}" in said


def test_an_own_algorithm_gives_the_same_with_1_and_with_24_lanes(tmp_path: Path, mine: Any) -> None:
    draw = 'sites.draw(leaf.shape[1:], n, normal=True) if hasattr(sites, "draw") else torch.randn(leaf.shape)'
    mine("drawing", ROUND.replace("DRAW", draw))
    settings = [baton.Setting(**SAME, algorithm="drawing:noisy", seed=seed) for seed in range(1, 25)]
    alone = baton.run(settings[10], tmp_path / "one", quiet=True)[0]
    among = baton.run(settings, tmp_path / "all", quiet=True)[10]
    assert alone.id == among.id
    for name in ("test_loss", "train_loss"):
        assert among.metrics[name] == pytest.approx(alone.metrics[name], rel=1e-5)
