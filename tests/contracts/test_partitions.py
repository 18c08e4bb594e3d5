"""Every partition: each sample at exactly one client, pure, keyed by its seed alone."""

import numpy as np
import pytest
import torch

from baton import datasets
from baton.clients import build, owners
from baton.names import bind, options
from baton.partitions import PARTITIONS
from baton.setting import Setting
from contracts.examples import BAD, CPU, data_for, examples, missing, refused

EVERY = pytest.mark.parametrize("spec", examples("partition"))
LABELLED = [s for s in examples("partition") if data_for("partition", s) == "digits"]
SEEDED = [s for s in LABELLED if "seed" in options(PARTITIONS[s.partition(":")[0]])]
LABELS = datasets.load("digits", 10).y.numpy()


def split(spec: str, labels: np.ndarray = LABELS, clients: int = 20, **more: object) -> np.ndarray:
    _, function, given = bind("partition", spec, PARTITIONS)
    return function(labels, clients, **{**given, **more})


def test_every_name_has_an_example() -> None:
    assert missing("partition") == []


@pytest.mark.parametrize("spec", BAD["partition"])
def test_bad_options_are_refused_in_one_line(spec: str) -> None:
    line = refused({"partition": spec})
    assert "partition: " in line or "clients: " in line
    assert "\n" not in line


@EVERY
@pytest.mark.parametrize("clients", [10, 20, 37])
def test_every_sample_is_at_exactly_one_client(spec: str, clients: int) -> None:
    dataset = data_for("partition", spec)
    setting = Setting(dataset=dataset, partition=spec, clients=clients)
    owner = owners(setting.dataset, setting.partition, clients)
    count = len(datasets.load(setting.dataset, clients).y)
    assert owner.shape == (count,)
    assert owner.min() >= 0
    assert owner.max() < clients
    table, lane = build([setting], torch.float64, CPU)
    assert lane.tolist() == [0]
    assert table.samples.sort().values.tolist() == list(range(count))
    sizes = table.start[0].diff()
    assert int(table.start[0, 0]) == 0
    assert int(table.start[0, -1]) == count
    assert (int(sizes.min()), int(sizes.max())) == (table.smallest, table.largest)
    for client in range(clients):
        mine = table.samples[table.start[0, client] : table.start[0, client + 1]]
        assert sorted(mine.tolist()) == np.flatnonzero(owner == client).tolist()


def test_each_lane_reads_its_own_partition_of_its_own_data() -> None:
    settings = [Setting(partition=spec, clients=20) for spec in (*LABELLED, LABELLED[0])]
    table, lane = build(settings, torch.float32, CPU)
    assert lane.tolist() == [*range(len(LABELLED)), 0]
    for p, spec in enumerate(LABELLED):
        owner = split(spec)
        for client in (0, 7, 19):
            mine = table.samples[table.start[p, client] : table.start[p, client + 1]]
            assert sorted(mine.tolist()) == np.flatnonzero(owner == client).tolist()
    settings = [Setting(dataset=f"quadratic_random:dim=2,seed={seed}", clients=3) for seed in (1, 2)]
    table, lane = build(settings, torch.float64, CPU)
    for p, setting in enumerate(settings):
        data = datasets.load(setting.dataset, 3)
        mine = table.samples[table.start[p, 0] : table.start[p, 3]]
        assert torch.equal(table.x[mine], data.x)
        assert torch.equal(table.test_x[table.dataset[p]], data.test_x)


@pytest.mark.parametrize("spec", LABELLED)
def test_a_partition_is_pure(spec: str) -> None:
    labels = LABELS.copy()
    before = np.random.get_state()[1].copy()
    first, second = split(spec, labels), split(spec, labels)
    assert np.array_equal(first, second)
    assert np.array_equal(labels, LABELS)
    assert np.array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("spec", SEEDED)
def test_another_seed_is_another_partition(spec: str) -> None:
    made = [split(spec, seed=seed) for seed in range(5)]
    for i, a in enumerate(made):
        assert all((a != b).mean() > 0.1 for b in made[:i])
    assert np.array_equal(made[0], split(spec))  # the default


# What each one promises


def test_iid_sizes_differ_by_one_at_most_and_classes_are_mixed() -> None:
    owner = split("iid", clients=20)
    sizes = np.bincount(owner, minlength=20)
    assert sizes.max() - sizes.min() <= 1
    kinds = [len(set(LABELS[owner == m])) for m in range(20)]
    assert min(kinds) >= 8


@pytest.mark.parametrize("form", ["balanced", "plain"])
@pytest.mark.parametrize(("C", "clients"), [(1, 10), (1, 40), (2, 20), (5, 20), (10, 20)])
def test_exdir_clients_hold_at_most_c_classes_and_enough_samples(form: str, C: int, clients: int) -> None:
    for seed in range(3):
        owner = split(f"exdir:C={C},alpha=10,form={form},min_samples=5", clients=clients, seed=seed)
        held = np.zeros((clients, 10), dtype=int)
        np.add.at(held, (owner, LABELS), 1)
        assert (held > 0).sum(1).max() <= C
        assert held.sum(1).min() >= 5
        assert (held.sum(0) == np.bincount(LABELS)).all()


def test_exdir_allocates_classes_evenly_over_seeds() -> None:
    counts = np.zeros((8, 10))
    for seed in range(60):
        owner = split("exdir:C=4,alpha=100,form=plain,min_samples=1", clients=8, seed=seed)
        held = np.zeros((8, 10), dtype=int)
        np.add.at(held, (owner, LABELS), 1)
        counts += held > 0
    share = counts / 60
    assert abs(share.mean() - 0.4) < 0.01  # C of 10 classes
    assert np.abs(share - 0.4).max() < 4.2 * (0.24 / 60) ** 0.5


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("spec", ["dirichlet:min_samples=0", "exdir:C=10,form=plain,min_samples=0"])
def test_shares_have_the_dirichlet_variance(spec: str, alpha: float) -> None:
    """E sum_m p_m^2 = (alpha + 1) / (M alpha + 1) for p ~ Dir(alpha) over M clients."""
    clients, squares = 5, []
    for seed in range(120):
        owner = split(f"{spec},alpha={alpha}", clients=clients, seed=seed)
        for c in range(10):
            share = np.bincount(owner[c == LABELS], minlength=clients) / (c == LABELS).sum()
            squares.append((share**2).sum())
    expected = (alpha + 1) / (clients * alpha + 1)
    assert abs(np.mean(squares) - expected) < 4 * np.std(squares) / len(squares) ** 0.5 + 1e-3  # 1e-3: whole samples


def test_balanced_exdir_is_more_even_than_plain() -> None:
    """With few samples above the fair share: a client that holds N/M takes no more."""
    largest = {}
    for form in ("balanced", "plain"):
        made = [split(f"exdir:C=5,alpha=0.5,form={form},min_samples=1", seed=seed) for seed in range(20)]
        largest[form] = np.mean([np.bincount(owner).max() for owner in made])
    assert largest["balanced"] < 0.85 * largest["plain"]


def test_dirichlet_leaves_no_client_below_its_least() -> None:
    for seed in range(5):
        assert np.bincount(split("dirichlet:alpha=0.5,min_samples=12", clients=20, seed=seed), minlength=20).min() >= 12
