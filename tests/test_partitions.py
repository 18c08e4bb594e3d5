"""Partitions: what each one promises, its moments against theory, and an answer in seconds at any size."""

import tracemalloc
from collections.abc import Callable
from itertools import islice
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from baton.clients import build, owners
from baton.errors import BadInput
from baton.names import bind
from baton.partitions import PARTITIONS
from baton.partitions.dirichlet import shares
from baton.partitions.exdir import balanced
from baton.partitions.holders import Holders, allocations, subsets
from baton.partitions.measures import measure, table
from baton.setting import Setting
from baton.simulate.engine import Program, advance, start
from steps import round_of

Labels = NDArray[np.int64]


def split(spec: str, labels: Labels, clients: int, **more: object) -> NDArray[np.int64]:
    _, function, given_ = bind("partition", spec, PARTITIONS)
    return function(labels, clients, **{**given_, **more})


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def attempt(spec: str, labels: Labels, clients: int, **more: object) -> tuple[NDArray[np.int64] | None, str]:
    """A partition, or the line that says why there is none."""
    try:
        return split(spec, labels, clients, **more), ""
    except BadInput as error:
        return None, str(error)


# Any labels, any M


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Labels, int, int, float, int]:
    """Labels of up to 8 classes, some without samples, in any order; M, C, alpha, seed."""
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    np.random.default_rng(draw(st.integers(0, 99))).shuffle(labels)
    alpha = draw(st.sampled_from([1e-300, 1e-3, 0.1, 1.0, 10.0, 1e6, 1e300]))
    return labels, draw(st.integers(1, 60)), draw(st.integers(1, 9)), alpha, draw(st.integers(0, 2**40))


SPECS = {
    "iid": "iid",
    "iid0": "iid:min_samples=0",
    "dirichlet": "dirichlet:alpha={alpha}",
    "dirichlet0": "dirichlet:alpha={alpha},min_samples=0",
    "classes": "classes:C={C}",
    "shards": "shards:n={C}",
    "shards0": "shards:n={C},min_samples=0",
    "balanced": "exdir:C={C},alpha={alpha},form=balanced",
    "balanced0": "exdir:C={C},alpha={alpha},form=balanced,min_samples=0",
    "plain": "exdir:C={C},alpha={alpha}",
    "plain0": "exdir:C={C},alpha={alpha},min_samples=0",
    "exact": "exdir:C={C},alpha={alpha},min_samples=0,exact=true",
}


@pytest.mark.parametrize("which", SPECS)
@given(world=worlds())
def test_a_partition_or_one_line(which: str, world: tuple[Labels, int, int, float, int]) -> None:
    labels, clients, C, alpha, seed = world
    before = labels.copy()
    spec = SPECS[which].format(C=C, alpha=alpha)
    kinds, samples = len(np.unique(labels)), len(labels)
    few = (
        patch("baton.partitions.dirichlet.TRIES", 50),
        patch.multiple("baton.partitions.holders", TRIES=50, WORK=1 << 22),
    )
    with few[0], few[1]:
        owner, line = attempt(spec, labels, clients, seed=seed)
        again, _ = attempt(spec, labels, clients, seed=seed)
    if owner is None:
        assert "\n" not in line
        assert which not in ("iid0", "dirichlet0", "shards0")  # these can always be
        if which in ("iid", "shards"):
            assert clients * (C if which == "shards" else 1) > samples
        if which in ("plain0", "balanced0"):
            assert kinds < C or C * clients < kinds
        if which == "classes":
            rarest = np.unique(labels, return_counts=True)[1].min()
            assert kinds < C or C * clients < kinds or 3 * C * clients > kinds * rarest
        return
    assert owner.shape == labels.shape
    assert owner.dtype == np.int64
    assert 0 <= owner.min() <= owner.max() < clients
    assert np.array_equal(owner, again)
    assert np.array_equal(labels, before)
    held = table(owner, labels, clients, int(labels.max()) + 1)
    assert held.sum() == samples
    least = {"iid": 1, "dirichlet": 1, "classes": C, "shards": 1, "plain": 1, "balanced": 10, "exact": C}
    assert held.sum(1).min() >= least.get(which, 0)
    if which in ("balanced", "balanced0", "plain", "plain0", "classes", "exact"):
        assert (held > 0).sum(1).max() <= C
    if which in ("classes", "exact"):
        assert ((held > 0).sum(1) == C).all()
    if which == "classes":  # equal parts
        for column in held.T[held.any(0)]:
            assert np.ptp(column[column > 0]) <= 1
    if which in ("iid", "iid0"):
        assert np.ptp(held.sum(1)) <= 1
    if which in ("shards", "shards0"):
        least, rest = divmod(samples, C * clients)
        assert C * least <= held.sum(1).min() <= held.sum(1).max() <= C * (least + (rest > 0))
        if (
            np.bincount(labels)[np.unique(labels)].min() > least
        ):  # no shard has room for a whole class between two others
            assert (held > 0).sum(1).max() <= 2 * C


def test_seeds_and_partitions_have_streams_of_their_own() -> None:
    labels = np.arange(600) % 10
    made = {spec: split(spec, labels, 12) for spec in ("iid", "dirichlet:alpha=1", "classes:C=2", "shards:n=2")}
    made |= {f"{spec} 1": split(spec, labels, 12, seed=1) for spec in list(made)}
    made["exdir"] = split("exdir:C=2,alpha=10", labels, 12)
    assert len({owner.tobytes() for owner in made.values()}) == len(made)


# Moments


@pytest.mark.parametrize("alpha", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("spec", ["dirichlet", "exdir:C=1", "exdir:C=1,form=balanced"])
def test_shares_are_dirichlet(spec: str, alpha: float) -> None:
    """One class over h = 5 clients: mean 1/h, variance (h - 1) / h^2 / (h alpha + 1), the marginal Beta throughout."""
    labels, h, draws = np.zeros(20_000, dtype=np.int64), 5, 400
    options = f"{',' if ':' in spec else ':'}alpha={alpha},min_samples=0"
    made = [np.bincount(split(spec + options, labels, h, seed=s), minlength=h) / 20_000 for s in range(draws)]
    p = np.array(made)  # [draws, h]
    variance = (h - 1) / h**2 / (h * alpha + 1)
    assert np.abs(p.mean(0) - 1 / h).max() < 4 * (variance / draws) ** 0.5
    spread = p.var(0)
    error = ((p - 1 / h) ** 2).std() / draws**0.5
    assert np.abs(spread - variance).max() < 4 * error + 1e-4
    assert stats.kstest(p[:, 0], stats.beta(alpha, (h - 1) * alpha).cdf).pvalue > 1e-3
    assert stats.kstest(p[:, 4], stats.beta(alpha, (h - 1) * alpha).cdf).pvalue > 1e-3


def test_shares_for_any_alpha() -> None:
    draw = np.random.default_rng(0)
    for alpha in (5e-324, 1e-9, 1e9, 1e308):
        p = np.array([shares(draw, alpha, 4) for _ in range(400)])
        assert np.allclose(p.sum(1), 1)
        if alpha < 1:  # a random vertex
            assert np.allclose(p.max(1), 1)
            assert stats.chisquare(np.bincount(p.argmax(1), minlength=4)).pvalue > 1e-3
        else:
            assert np.allclose(p, 0.25, atol=1e-3)


def test_iid_is_hypergeometric() -> None:
    labels = np.repeat([0, 1], [30, 70])
    made = np.array([(split("iid", labels, 5, seed=s)[:30] == 2).sum() for s in range(3000)])  # of 20 samples
    theory = stats.hypergeom(100, 30, 20)
    assert abs(made.mean() - theory.mean()) < 4 * theory.std() / 3000**0.5
    cells = [(made <= 3).sum(), *((made == k).sum() for k in range(4, 9)), (made >= 9).sum()]
    expected = [theory.cdf(3), *(theory.pmf(k) for k in range(4, 9)), theory.sf(8)]
    assert stats.chisquare(cells, np.array(expected) * 3000).pvalue > 1e-3


def test_every_set_of_classes_is_equally_likely() -> None:
    chosen = np.sort(subsets(np.random.default_rng(1), 21_000, 7, 3), axis=0)
    kinds, counts = np.unique(chosen, axis=1, return_counts=True)
    assert kinds.shape == (3, 35)
    assert (np.diff(kinds, axis=0) > 0).all()
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize(
    ("clients", "classes", "C", "many"), [(3, 3, 1, 6), (4, 3, 1, 36), (2, 4, 2, 6), (3, 3, 2, 24)]
)
def test_every_allocation_that_covers_is_equally_likely(clients: int, classes: int, C: int, many: int) -> None:
    found: dict[bytes, int] = {}
    for seed in range(20):
        for holders in islice(allocations(np.random.default_rng(seed), clients, classes, C, 1), 200):
            assert (np.diff(holders.start) >= 1).all()
            assert (np.bincount(holders.client) == C).all()
            found[key] = found.get(key := holders.client.tobytes() + holders.start.tobytes(), 0) + 1
    assert len(found) == many
    assert stats.chisquare(list(found.values())).pvalue > 1e-3


def test_a_full_client_takes_no_more() -> None:
    """Three clients hold both classes; who has its third of the samples after class 0 gets nothing of class 1."""
    holders, full = Holders(np.array([0, 1, 2] * 2), np.array([0, 3, 6])), 0
    for seed in range(200):
        first, second = balanced(np.random.default_rng(seed), 1.0, np.array([60, 60]), holders).reshape(2, 3)
        done = first >= 40
        full += done.any()
        assert second[done & (np.arange(3) < 2)].sum() == 0
        assert second[2] <= 1 or not done[2]  # only what rounding leaves over
    assert full > 50
    alone = Holders(
        np.array([0, 1, 0]), np.array([0, 2, 3])
    )  # the only holder of class 1 is full: it takes all the same
    assert balanced(np.random.default_rng(0), 1e9, np.array([90, 10]), alone).tolist() in ([44, 46, 10], [45, 45, 10])


def test_balanced_gives_every_class_its_clients() -> None:
    labels = np.repeat(np.arange(10), 100)
    for seed in range(20):
        held = table(split("exdir:C=2,alpha=100,form=balanced,min_samples=0", labels, 100, seed=seed), labels, 100, 10)
        assert (held > 0).sum(0).min() >= 2 * 100 / 10 / 5


# At any size


MILLION = [
    *("iid", "iid:min_samples=0", "dirichlet:alpha=1", "dirichlet:alpha=0.01,min_samples=0", "classes:C=2"),
    *("shards:n=2", "shards:n=2,min_samples=0", "exdir:C=2,alpha=10", "exdir:C=2,alpha=10,form=balanced"),
    *(
        "exdir:C=10,alpha=0.1,min_samples=0",
        "exdir:C=2,alpha=1,form=balanced,min_samples=0",
        "exdir:C=2,alpha=1,exact=true",
    ),
]


@pytest.mark.parametrize("spec", MILLION)
@pytest.mark.parametrize("clients", [25_000, 1_000_000])
def test_a_million_clients(spec: str, clients: int) -> None:
    """An answer, in memory of samples + M (C): an array of samples x M would need 400 GB."""
    labels = np.arange(50_000) % 10
    tracemalloc.start()
    owner, line = attempt(spec, labels, clients)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if owner is None:
        assert "min_samples=0" not in spec
        assert "clients" in line
    else:
        assert 0 <= owner.min() <= owner.max() < clients
    assert peak < 60 * 10 * (50_000 + clients)


STUCK = [
    ("exdir:C=1,alpha=0.01,form=balanced", 500, 10, "with 0 samples, and min_samples=10; take a larger alpha"),
    ("dirichlet:alpha=0.01", 500, 10, "and min_samples=1; take a larger alpha"),
    ("exdir:C=1,alpha=1,min_samples=0", 60, 50, "50 classes at least 1 clients; take more clients or a larger C"),
    ("classes:C=1", 60, 50, "each of the 50 classes at least 1 clients and at most"),
    ("classes:C=1", 5000, 10, "at most as many as it has samples; take fewer clients or a smaller C"),
    ("classes:C=2", 4000, 10, "4000 x 2 classes is more than the 5000 training samples"),
    ("exdir:C=2,alpha=1,min_samples=0,exact=true", 4000, 10, "at most 2500 clients, or exact=false, is right"),
    ("exdir:C=1,alpha=1", 9, 10, "9 with C=1 cannot cover 10 classes; C x clients >= classes is right"),
    ("shards:n=9", 1000, 10, "may have only 0 samples, and min_samples=1; take a smaller n"),
    ("dirichlet:alpha=1,min_samples=0", 2_000_000, 10, "at most 1677721 clients are right"),
    ("iid", 0, 10, "clients: 0; 1 or more is right"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "clients", "classes", "line"), STUCK)
def test_what_cannot_be_says_what_to_change(spec: str, clients: int, classes: int, line: str) -> None:
    labels = np.arange(5000) % classes
    assert line in refused(lambda: split(spec, labels, clients))


def test_no_samples_at_all() -> None:
    for spec in ("iid:min_samples=0", "shards:n=1,min_samples=0", "exdir:C=1,alpha=1", "classes:C=1"):
        empty = np.array([], dtype=np.int64)
        refused(lambda spec=spec, empty=empty: split(spec, empty, 3))


def test_the_tables_of_a_million_clients() -> None:
    setting = Setting(partition="iid:min_samples=0", clients=1_000_000, participants=2)
    tracemalloc.start()
    clients, _ = build([setting], torch.float32, torch.device("cpu"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert clients.start.shape == (1, 1_000_001)
    assert clients.samples.shape == (1437,)
    assert peak < 64 * (1_000_000 + 1437)
    assert (clients.smallest, clients.largest) == (0, 1)


@pytest.mark.parametrize("algorithm", ["sequential", "parallel", "parallel:weighting=size"])
def test_a_client_without_samples_hands_the_model_on_unchanged(algorithm: str) -> None:
    setting = Setting(
        partition="iid:min_samples=0", clients=5000, participants=1, rounds=3, algorithm=algorithm, weight_decay=0.1
    )
    program = Program([setting], torch.device("cpu"))
    at = start(program)
    for client, same in ((4999, True), (0, False)):
        after = round_of(program, at.state.model, order=torch.tensor([[client]]))
        assert all(torch.equal(after[name], leaf) for name, leaf in at.state.model.items()) == same
    *_, last = advance(program, at)
    assert last.round == 3
    assert int(last.diverged[0]) == -1


def test_natural_clients_of_labelled_data() -> None:
    owner = owners("user_modules:blobs", "natural", 6)
    assert np.array_equal(owner, np.arange(60) // 10)
    assert "'natural' needs data that comes with its clients" in refused(lambda: owners("digits", "natural", 6))
    assert "splits labelled samples" in refused(lambda: owners("quadratic", "iid", 2))


# Measures


def test_measures_of_a_table() -> None:
    counts = np.array([[10, 0, 0], [0, 5, 5], [0, 0, 0], [10, 5, 5]])
    found = measure(counts)
    assert found.sizes.tolist() == [10, 10, 0, 20]
    assert found.classes.tolist() == [1, 2, 0, 3]
    assert np.allclose(found.total_variation[[0, 1, 3]], [0.5, 0.5, 0])
    assert np.isnan(found.total_variation[2])
    assert found.summary()["without_samples"] == 1
    assert found.summary()["mean_total_variation"] == pytest.approx(1 / 3)


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 6))
def test_jensen_shannon_is_scipys(seed: int, clients: int, classes: int) -> None:
    from scipy.spatial.distance import jensenshannon

    counts = np.random.default_rng(seed).integers(0, 4, (clients, classes)) * 3
    counts[0, 0] += 1
    found = measure(counts)
    for client, row in enumerate(counts):
        if row.sum():
            assert found.jensen_shannon[client] == pytest.approx(jensenshannon(row, counts.sum(0), base=2), abs=1e-7)


def test_a_sample_nobody_holds_counts_nowhere() -> None:
    assert table(np.array([0, -1, 1, 1]), np.array([0, 1, 1, 2]), 3, 3).tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
