"""Methods do what their names say: controls over a whole period, one weighting from the model to all that is kept."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import baton
from baton.datasets.base import Dataset

pytestmark = pytest.mark.trust
Floats = NDArray[np.float64]


def _loss(output: Tensor, y: Tensor) -> Tensor:  # noqa: ARG001
    return output


def sized(clients: int) -> Dataset:
    """Client 0 holds 30 samples of x^2 / 2, the last one 10 of 2 (x - 4)^2 / 2, those between 20 of (x - 1)^2 / 2."""
    each = [(30, 1.0, 0.0), *[(20, 1.0, -1.0)] * (clients - 2), (10, 2.0, -8.0)]
    rows = torch.tensor([[a, c, 0.0] for count, a, c in each for _ in range(count)], dtype=torch.float64)
    owner = torch.arange(clients).repeat_interleave(torch.tensor([count for count, _, _ in each]))
    y = torch.zeros(len(rows), dtype=torch.int64)
    return Dataset(rows, y, rows, y, 0, _loss, owner=owner)


def optimum(clients: int, by_size: bool) -> float:
    """Of the clients' mean, by samples or plain."""
    counts = np.array([30, *[20] * (clients - 2), 10]) if by_size else np.ones(clients)
    curves, slopes = np.array([1, *[1] * (clients - 2), 2]), np.array([0, *[1] * (clients - 2), 8])
    return float((counts * slopes).sum() / (counts * curves).sum())


def end(folder: Path, algorithm: str, **more: object) -> float:
    """Where a run on these quadratics ends."""
    base = {"dataset": "trust.test_methods:sized", "model": "quadratic", "partition": "natural", "dtype": "float64"}
    base |= {"clients": 2, "local_steps": 5, "rounds": 400, "batch_size": 10, "lr": 0.05}
    s = baton.Setting(**{**base, "eval_every": 10_000, "algorithm": algorithm, **more})
    (run,) = baton.run(s, folder, quiet=True)
    return float(run.module().x.detach())


@pytest.mark.parametrize("clients", [2, 4])  # of four, two take part in a round
@pytest.mark.parametrize(
    "algorithm", ["scaffold", "scaffold:option=1", "feddyn:alpha=1.0", "amplified_scaffold:every=2"]
)
def test_weighting_by_size_ends_at_the_optimum_by_size(algorithm: str, clients: int, tmp_path: Path) -> None:
    more = {"clients": clients, "participants": 2, "rounds": 1500 if clients > 2 else 400}
    by_size = f"{algorithm}{',' if ':' in algorithm else ':'}weighting=size"
    found = end(tmp_path, by_size, **more)
    assert found == pytest.approx(optimum(clients, True), abs=1e-3)
    assert abs(found - optimum(clients, False)) > 0.1


@pytest.mark.parametrize("algorithm", ["fednova", "fedseq:groups=2", "fedseqinter:groups=2,every=1"])
def test_the_default_weighting_is_the_plain_mean(algorithm: str, tmp_path: Path) -> None:
    plain, found = (end(tmp_path, spec, rounds=3) for spec in ("parallel", algorithm))
    assert found == pytest.approx(plain, rel=1e-12)


def pair(order: list[int], every: int, rate: float, lr: float, steps: int, participants: int) -> Floats:
    """Amplified SCAFFOLD in plain loops on F_1 = x^2 + 10 x and F_2 = -10 x; controls are means over whole periods."""
    curve, slope = np.array([2.0, 0.0]), np.array([10.0, -10.0])
    x = old = 10.0
    c, own, total, count = 0.0, np.zeros(2), np.zeros(2), np.zeros(2)
    for round in range(len(order) // participants):
        ends = []
        for m in order[round * participants : (round + 1) * participants]:
            y = x
            for _ in range(steps):
                g = curve[m] * y + slope[m]
                total[m], count[m] = total[m] + g, count[m] + 1
                y -= lr * (g - own[m] + c)
            ends.append(y)
        x = float(np.mean(ends))
        if round % every == every - 1:
            x = old = old + rate * (x - old)
            own = np.where(count > 0, total / np.maximum(count, 1), own)
            c, total, count = float(own.mean()), np.zeros(2), np.zeros(2)
    return np.array(x)


@pytest.mark.parametrize("participants", [1, 2])
def test_amplified_controls_are_means_over_whole_periods(participants: int, tmp_path: Path) -> None:
    """As its authors' code has them, where clients take turns and where both come in every round."""
    turns = [[0], [0], [0], [1], [1], [1]] if participants == 1 else [[0, 1], [1, 0]]
    place, rounds, every = tmp_path / "order.txt", 42, 6
    place.write_text("".join(" ".join(map(str, line)) + "\n" for line in turns))
    base = {"dataset": "quadratic:zeta=10,delta=1", "schedule": f"file:{place}", "participants": participants}
    base |= {"local_steps": 4, "rounds": rounds, "lr": 0.01, "eval_every": rounds}
    s = baton.Setting(algorithm=f"amplified_scaffold:every={every},server_lr=1.5", **base)
    (run,) = baton.run(s, tmp_path / "runs", quiet=True)
    order = [m for round in range(rounds) for m in turns[round % len(turns)]]
    wanted = pair(order, every, 1.5, 0.01, 4, participants)
    assert float(run.module().x.detach()) == pytest.approx(float(wanted), rel=1e-10)
