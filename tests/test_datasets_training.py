"""The data sets of files in training: the contract that every data set keeps, on made files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from baton import datasets
from baton.datasets import prepared
from baton.setting import Setting
from contracts.examples import cases, finish, series
from made_data import write_all

pytest_plugins = ["fixtures_data"]

EVERY = pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cinic10"])


@EVERY
def test_it_is_well_formed_and_the_same_each_time(data: Path, name: str) -> None:
    write_all(data)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    first, second = (datasets.LOADERS[name](clients) for clients in (500, 7))
    assert all(torch.equal(a, b) for a, b in zip(first[:4], second[:4], strict=True))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    for x, y in ((first.x, first.y), (first.test_x, first.test_y)):
        assert x.dtype == torch.uint8
        assert y.dtype == torch.int64
        assert len(x) == len(y)
        assert set(y.tolist()) == set(range(10))
        for dtype in (torch.float32, torch.float64):
            ready = prepared(first, x, dtype)
            assert ready.dtype == dtype
            assert ready.shape == x.shape
    output = torch.linspace(-2, 2, 50, dtype=torch.float64).view(5, 10)
    right = torch.nn.functional.cross_entropy(output, first.y[:5])
    torch.testing.assert_close(first.loss(output, first.y[:5]).mean(), right)


@EVERY
@pytest.mark.parametrize("algorithm", cases(["sequential", "parallel"], ["sequential"]))
def test_it_trains_and_stays_as_it_was(data: Path, name: str, algorithm: str) -> None:
    write_all(data, 100, 40)
    setting = Setting(dataset=name, algorithm=algorithm, model="logistic", clients=5, rounds=8, lr=0.01)
    kept = [tensor.clone() for tensor in datasets.load(name, 5)[:4]]
    _, at = finish([setting])
    loss = series(at, "test_loss")
    assert loss[8] < 0.9 * loss[0]
    assert all(torch.equal(a, b) for a, b in zip(kept, datasets.load(name, 5)[:4], strict=True))


def test_lanes_of_augmented_images_train_as_alone(data: Path) -> None:
    """Crops and flips are keyed by seed, round, client and step, not by who trains beside."""
    write_all(data)
    lanes = [
        Setting(dataset="cifar10", model="logistic", clients=4, rounds=3, lr=lr, seed=seed, dtype="float64")
        for seed, lr in ((1, 0.01), (2, 0.02), (1, 0.03))
    ]
    _, together = finish(lanes)
    for lane, setting in enumerate(lanes):
        _, alone = finish([setting])
        for name, leaf in alone.state.model.items():
            torch.testing.assert_close(together.state.model[name][lane], leaf[0], rtol=1e-10, atol=1e-12)
