"""Class-balanced minibatches: every class that a client holds is as likely as the others."""

import pytest
import torch
from scipy import stats

from baton import clients
from baton.clients.kinds import by_class
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate.engine import Program
from contracts.examples import CPU, finish
from test_sites import compare, pipes, setting

__all__ = ["pipes"]  # the fixture
SURE = 1e-6  # a test that is right fails so often


def test_classes_of_each_client() -> None:
    y = torch.tensor([2, 0, 2, 1, 1, 2, 0, 0])
    samples, start = torch.tensor([7, 2, 0, 5, 3, 1]), torch.tensor([[0, 3, 3, 6]])  # the second holds nothing
    made, kinds = by_class(samples, start, y)
    assert made.tolist() == [7, 2, 0, 1, 3, 5]  # as they came, within a class
    assert kinds.start.tolist() == [[0, 2, 2, 5]]
    assert (kinds.first.tolist(), kinds.size.tolist()) == ([0, 1, 0, 1, 2], [1, 2, 1, 1, 1])


def drawn(partition: str, steps: int = 400) -> tuple[Program, clients.Batches]:
    s = Setting(partition=partition, clients=8, sampling="balanced", local_steps=steps, batch_size=25)
    p = Program([s, Setting(**{**s.model_dump(), "partition": "iid", "seed": 2})], CPU)
    return p, p.draw(0, torch.arange(8).expand(2, 8))


def test_every_class_that_a_client_holds_is_as_likely_and_so_is_every_sample_of_it() -> None:
    p, batches = drawn("dirichlet:alpha=0.3")
    for leg in range(16):
        lane, client = divmod(leg, 8)
        first, end = p.clients.start[lane, client], p.clients.start[lane, client + 1]
        mine, at = p.clients.samples[first:end], batches.places[leg].flatten()
        assert torch.isin(at, mine).all()
        held = p.clients.y[mine].unique()
        found = torch.stack([(p.clients.y[at] == c).sum() for c in held])
        assert int(found.sum()) == 400 * 25
        assert len(held) == 1 or stats.chisquare(found.numpy()).pvalue > SURE
        largest = mine[p.clients.y[mine] == held[found.argmax()]]
        each = torch.stack([(at == i).sum() for i in largest])
        assert len(each) == 1 or stats.chisquare(each.numpy()).pvalue > SURE
    assert bool((batches.weight == 1).all())


def test_of_one_class_it_is_drawing_with_replacement() -> None:
    """To the bit."""
    base = {"partition": "classes:C=1", "clients": 10, "model": "mlp:hidden=5", "rounds": 3}
    one, other = (finish([Setting(**base, sampling=how)]) for how in ("balanced", "replacement"))
    assert int(one[0].clients.kinds.start[0, -1]) == 10
    for name, leaf in one[1].state.model.items():
        assert torch.equal(leaf, other[1].state.model[name])


def test_nothing_is_built_where_nobody_asks() -> None:
    assert Program([Setting()], CPU).clients.kinds is None


def test_clients_without_samples_hand_on() -> None:
    s = Setting(partition="dirichlet:alpha=0.01,min_samples=0", clients=40, sampling="balanced", rounds=2)
    p, last = finish([s])
    assert p.clients.smallest == 0
    assert all(leaf.isfinite().all() for leaf in last.state.model.values())


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": "balanced"},
        {"epochs": 2, "local_steps": 0},
        {"sampling": "balanced", "epochs": 1, "local_steps": 0},
    ],
)
@pytest.mark.parametrize("spec", ["scaffold", "alone", "ssl:cut=1"])
@pytest.mark.long
def test_real_sites_draw_the_same(spec: str, more: dict[str, object], pipes: list) -> None:
    compare(setting(spec, **more), pipes, exact=not spec.startswith("ssl"))


def test_pooled_batches_are_balanced_over_all_classes() -> None:
    s = Setting(partition="dirichlet:alpha=0.3", sampling="balanced", algorithm="pooled", local_steps=300)
    p = Program([s], CPU)
    found = p.clients.y[p.draw_pool(0).places.flatten()].bincount(minlength=10)
    assert stats.chisquare(found.numpy()).pvalue > SURE


def test_data_without_classes_are_refused_in_one_line() -> None:
    with pytest.raises(BadInput, match="sampling: balanced, and quadratic has no classes"):
        Program([Setting(dataset="quadratic", sampling="balanced")], CPU)
