"""Every data set: well-formed, the same each time, and trainable with its own defaults."""

import numpy as np
import pytest
import torch

from baton import datasets
from baton.datasets import DATASETS, prepared
from baton.names import bind, options
from baton.setting import Setting
from contracts.examples import BAD, examples, finish, missing, refused, series

EVERY = pytest.mark.parametrize("spec", examples("dataset"))


def loaded(spec: str, clients: int | None = None) -> datasets.Dataset:
    """Straight from its loader, past the cache."""
    _, load, given = bind("dataset", spec, datasets.LOADERS)
    return load(datasets.source(spec).clients if clients is None else clients, **given)


def tensors(data: datasets.Dataset) -> list[torch.Tensor]:
    optimum = list(data.optimum) if data.optimum is not None else []
    owner = [data.owner] if data.owner is not None else []
    return [data.x, data.y, data.test_x, data.test_y, *owner, *optimum]


def test_every_name_has_an_example() -> None:
    assert missing("dataset") == []


@pytest.mark.parametrize("spec", BAD["dataset"])
def test_bad_options_are_refused_in_one_line(spec: str) -> None:
    line = refused({"dataset": spec})
    assert "dataset: " in line
    assert "\n" not in line


@EVERY
def test_a_data_set_is_well_formed(spec: str) -> None:
    data = loaded(spec)
    source = datasets.source(spec)
    for x, y in ((data.x, data.y), (data.test_x, data.test_y)):
        assert len(x) == len(y) > 0
        assert x.shape[1:] == data.x.shape[1:]
        if not datasets.tells_numbers(data):
            assert y.dtype == torch.int64
            assert int(y.min()) >= 0
            assert int(y.max()) < max(data.classes, 1)
        for dtype in (torch.float32, torch.float64):
            ready = prepared(data, x, dtype)
            assert ready.dtype == dtype
            assert len(ready) == len(x)
            assert bool(ready.isfinite().all())
    if data.classes:
        assert set(data.y.tolist()) == set(data.test_y.tolist()) == set(range(data.classes))
    if data.owner is not None:
        assert data.owner.shape == data.y.shape
        assert set(data.owner.tolist()) == set(range(source.clients or datasets.sites(spec) or 0))
        assert len(data.names) in (0, len(set(data.owner.tolist())))
    if data.test_owner is not None:
        assert data.test_owner.shape == data.test_y.shape
        assert set(data.test_owner.tolist()) <= set(range(len(data.names)))
    assert (data.classes > 0 or datasets.tells_numbers(data)) == (data.optimum is None)


@EVERY
def test_loading_twice_gives_the_same_data_and_touches_no_generator(spec: str) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    first, second = loaded(spec), loaded(spec)
    assert all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(second), strict=True))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


@EVERY
def test_training_does_not_change_the_data(spec: str) -> None:
    setting = Setting(dataset=spec, rounds=2, lr=0.01)
    before = [t.clone() for t in tensors(datasets.load(setting.dataset, setting.clients))]
    finish([setting])
    after = tensors(datasets.load(setting.dataset, setting.clients))
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("spec", [s for s in examples("dataset") if "seed" in options(DATASETS[s.split(":")[0]].load)])
def test_another_seed_is_another_data_set(spec: str) -> None:
    more = "," if ":" in spec else ":"
    made = [loaded(f"{spec}{more}seed={seed}").x for seed in (0, 1, 2)]
    assert not torch.equal(made[0], made[1])
    assert not torch.equal(made[1], made[2])
    assert torch.equal(made[0], loaded(spec).x)  # the default


@EVERY
def test_a_loss_is_one_number_a_sample(spec: str) -> None:
    data = loaded(spec)
    output = torch.linspace(-2, 2, 5 * max(data.classes, 1), dtype=torch.float64).view(5, -1)
    output = output if data.classes or datasets.tells_numbers(data) else output[:, 0]
    kept = output.clone()
    each = data.loss(output, data.y[:1].expand(5))
    assert each.shape == (5,)
    assert torch.equal(output, kept)
    alone = torch.cat([data.loss(output[i : i + 1], data.y[:1]) for i in range(5)])
    torch.testing.assert_close(each, alone, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("spec", [s for s in examples("dataset") if loaded(s).augment is not None])
def test_augmentation_is_keyed(spec: str) -> None:
    data = loaded(spec)
    assert data.augment is not None
    x = data.x[:2]
    kept = x.clone()
    one, same, other = (data.augment(x, torch.tensor(key)) for key in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert one.shape == x.shape
    assert torch.equal(x, kept)
    torch.testing.assert_close(data.augment(x[:1], torch.tensor(1)), one[:1])  # a sample's draw is its own


@EVERY
@pytest.mark.parametrize("algorithm", ["sequential", "parallel"])
def test_its_defaults_train(spec: str, algorithm: str) -> None:
    setting = Setting(dataset=spec, algorithm=algorithm, rounds=5, lr=0.02)
    assert setting.model.partition(":")[0] == datasets.source(spec).model
    _, at = finish([setting])
    loss = series(at, "test_loss")
    assert loss[5] < loss[0]
    assert int(at.diverged[0]) == -1


@EVERY
def test_what_makes_no_shape_does_not_part_lanes(spec: str) -> None:
    """Specs of one shape have samples of one shape, so that they can be stacked."""
    base = Setting(dataset=spec)
    source = datasets.source(spec)
    for key, parameter in options(source.load).items():
        if parameter.annotation is float and source.shape is not None and key not in source.shape and key not in spec:
            value = 0.9 * parameter.default or 0.1
            other = Setting(dataset=f"{spec}{',' if ':' in spec else ':'}{key}={value}")
            assert other.shape_key == base.shape_key
            a, b = (datasets.load(s.dataset, s.clients) for s in (base, other))
            assert not torch.equal(a.x, b.x)
            assert a.x.shape == b.x.shape
            assert a.test_x.shape == b.test_x.shape


def test_digits_are_split_and_normalised() -> None:
    data = loaded("digits")
    assert (len(data.y), len(data.test_y)) == (1437, 360)
    assert abs(float(data.x.mean())) < 1e-3
    assert abs(float(data.x.std()) - 1) < 1e-3
    train = {tuple(row) for row in data.x.tolist()}
    assert not any(tuple(row) in train for row in data.test_x.tolist())
