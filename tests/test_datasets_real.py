"""The real data sets, where they are: counts, order, and the constants they are normalised with."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from baton import datasets
from baton.datasets import cifar10
from baton.datasets.check import check

pytest_plugins = ["fixtures_data"]

Load = Callable[[str], datasets.Dataset]
PARTITIONS = Path(__file__).parents[2] / "shared" / "data" / "partitions"


def moments(x: torch.Tensor) -> tuple[list[float], list[float]]:
    """Mean and deviation of each channel, pixels scaled to [0, 1]."""
    counts = [torch.bincount(x[:, c].flatten().long(), minlength=256).double() for c in range(x.shape[1])]
    level = torch.arange(256, dtype=torch.float64) / 255
    means = [float((n * level).sum() / n.sum()) for n in counts]
    deviations = [
        float(((n * (level - m).square()).sum() / n.sum()).sqrt()) for n, m in zip(counts, means, strict=True)
    ]
    return means, deviations


def published(name: str) -> list[list[int]]:
    path = PARTITIONS / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the published partitions are not on this machine ({path.parent})")
    clients = json.loads(path.read_text())
    return [clients[str(m)] for m in range(len(clients))]


def classes_held(y: torch.Tensor, clients: list[list[int]]) -> list[int]:
    return [len(y[samples].unique()) for samples in clients]


MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize(("name", "mean", "std"), [("mnist", 0.1307, 0.3081), ("fashion_mnist", 0.2860, 0.3530)])
def test_the_mnists(real_data: Load, name: str, mean: float, std: float) -> None:
    found = real_data(name)
    assert found.x.shape == (60_000, 1, 28, 28)
    assert found.test_x.shape == (10_000, 1, 28, 28)
    counts = found.y.bincount().tolist(), found.test_y.bincount().tolist()
    assert counts == ((MNIST_COUNTS, MNIST_TEST_COUNTS) if name == "mnist" else ([6000] * 10, [1000] * 10))
    (measured_mean,), (measured_std,) = moments(found.x)
    assert abs(measured_mean - mean) < 1e-4
    assert abs(measured_std - std) < 1e-4
    assert check(name).state == "official"


def test_cifar10(real_data: Load) -> None:
    found = real_data("cifar10")
    assert found.x.shape == (50_000, 3, 32, 32)
    assert found.test_x.shape == (10_000, 3, 32, 32)
    assert found.y.bincount().tolist() == [5000] * 10
    assert found.test_y.bincount().tolist() == [1000] * 10
    assert found.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    means, deviations = moments(found.x)
    verdict = check("cifar10").state
    assert verdict in ("official", "other pixels")
    near = 1e-4 if verdict == "official" else 0.02  # a JPEG copy's pixels are near
    assert all(abs(a - b) < near for a, b in zip(means, cifar10.MEAN, strict=True))
    assert all(abs(a - b) < near for a, b in zip(deviations, cifar10.STD, strict=True))


@pytest.mark.long
def test_cinic10(real_data: Load) -> None:
    found = real_data("cinic10")
    assert found.x.shape == found.test_x.shape == (90_000, 3, 32, 32)
    assert found.y.bincount().tolist() == [9000] * 10


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_the_published_partitions_are_of_this_order(real_data: Load, name: str) -> None:
    """ExDir(1, 10) and ExDir(2, 10): one and two classes a client, which only the official order gives."""
    y = real_data(name).y
    for held in (1, 2):
        clients = published(f"{name.replace('_', '')}_M500_exdir_C{held}_a10")
        assert sorted(sample for samples in clients for sample in samples) == list(range(len(y)))
        classes = classes_held(y, clients)
        assert max(classes[:-1]) == held
        # What rounding left over in CIFAR-10's draw, four samples, went to the last client.
        assert classes[-1] == (5 if (name, held) == ("cifar10", 1) else held)
