"""Held-back samples: whose they are, that nobody trains on them, and that searches choose by them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import baton
from baton import clients, datasets, study
from baton.clients.held import held_back
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Store

CPU = torch.device("cpu")


@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 3)), min_size=20, max_size=300), st.floats(0.05, 0.6))
def test_every_client_and_class_gives_its_share(rows: list[tuple[int, int]], share: float) -> None:
    owner, labels = (np.array(column) for column in zip(*rows, strict=True))
    try:
        held = held_back(owner, labels, share)
    except BadInput:
        kept = [np.count_nonzero(owner == m) for m in range(6)]
        assert share * sum(kept) < 1 or max(kept) < 2 or sum(n > 1 for n in kept) * 2 * share < 2
        return
    assert not held[owner < 0].any()
    for client in set(owner[owner >= 0]):
        own = owner == client
        assert own.sum() > held[own].sum()  # it keeps at least one
        for label in set(labels[own]):
            both = own & (labels == label)
            assert abs(held[both].sum() - share * both.sum()) < 1 + 1e-9 or own.sum() == 1 + held[own].sum()


def table(**more: float) -> clients.Clients:
    return clients.build([Setting(partition="exdir:C=2,alpha=10", clients=20, **more)], torch.float32, CPU)[0]


def test_held_back_samples_are_nobody_s() -> None:
    whole, less = table(), table(validation=0.2)
    assert whole.held is None
    assert less.held is not None
    held = set(less.held[0].tolist())
    assert held.isdisjoint(less.samples.tolist())
    assert held | set(less.samples.tolist()) == set(whole.samples.tolist())
    assert len(held) == pytest.approx(0.2 * len(whole.samples), abs=1)


def test_partitions_side_by_side_hold_back_their_own() -> None:
    both = [Setting(partition=p, clients=20, validation=0.1) for p in ("exdir:C=2,alpha=10", "iid")]
    found = clients.build(both, torch.float32, CPU)[0]
    assert found.held is not None
    for row, setting in zip(found.held, both, strict=True):
        alone = clients.build([setting], torch.float32, CPU)[0].held
        assert alone is not None
        assert row[row >= 0].tolist() == alone[0].tolist()


def test_the_numbers_are_those_of_the_held_back_samples(tmp_path: Path) -> None:
    settings = [Setting(partition=p, clients=10, rounds=8, validation=0.25) for p in ("exdir:C=2,alpha=10", "iid")]
    for s, run in zip(settings, baton.run(settings, tmp_path, quiet=True), strict=True):
        held = clients.build([s], torch.float32, CPU)[0].held
        assert held is not None
        data, x = datasets.load(s.dataset, s.clients), Store(tmp_path).params(s.run_id)
        weight, bias = (next(t for n, t in x.items() if n.endswith(end)) for end in ("weight", "bias"))
        seen = datasets.prepared(data, data.x[held[0]], torch.float32).flatten(1) @ weight.T + bias
        right = (seen.argmax(1) == data.y[held[0]]).double().mean()
        loss = functional.cross_entropy(seen.double(), data.y[held[0]])
        assert run.metrics["validation_accuracy"][-1] == pytest.approx(100 * float(right))
        assert run.metrics["validation_loss"][-1] == pytest.approx(float(loss), rel=1e-5)
        assert run.metrics["test_accuracy"][-1] > 0


def test_without_a_share_nothing_changed(tmp_path: Path) -> None:
    """There are no columns of it."""
    s = Setting(rounds=4)
    assert Setting(rounds=4, validation=0.0).run_id == s.run_id
    assert Setting(rounds=4, validation=0.1).run_id != s.run_id
    (run,) = baton.run(s, tmp_path, quiet=True)
    assert not [name for name in run.metrics if name.startswith("validation")]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"validation": 1.0}, "validation: 1.0 is not right: input should be less than 1"),
        ({"validation": -0.1}, "validation: -0.1"),
        ({"validation": 1e-5}, r"validation: 1e-05 of \d+ samples at 10 clients holds none back; a larger share, or 0"),
        ({"validation": 0.2, "dataset": "quadratic"}, "validation: 0.2 of 2 samples at 2 clients holds none back"),
    ],
)
def test_bad_shares_are_one_line(more: dict[str, float], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=f"^{said}"):
        baton.run(Setting(**more), tmp_path, quiet=True)


def made(**tune: object) -> study.Study:
    return study.parse(
        "made",
        {
            "base": {"rounds": 8, "clients": 10, "participants": 5},
            "axes": {"lr": [0.001, 0.1], "seed": [1, 2]},
            "tune": {"over": ["lr"], "extend": False, **tune},
            "report": {"last": 1},
        },
    )


def test_a_search_chooses_by_what_is_held_back(tmp_path: Path) -> None:
    """By default; the winner is then trained on everything, on all seeds, and never met the test set before."""
    (choice,) = baton.tune(made(), tmp_path, quiet=True)
    found = {s.run_id: s for s in Store(tmp_path).settings().values()}
    assert sorted((s.lr, s.seed, s.validation) for s in found.values()) == [
        (0.001, 1, 0.2), (0.1, 1, 0.0), (0.1, 1, 0.2), (0.1, 2, 0.0),
    ]  # fmt: skip
    assert [(s.seed, s.validation) for s in choice.chosen] == [(1, 0.0), (2, 0.0)]
    scores = {s.lr: Store(tmp_path).read(s.run_id).metrics["validation_accuracy"][-1] for s in choice.trained}
    assert choice.stages[0].scores == {f"lr = {lr:g}": score for lr, score in scores.items()}


def test_a_search_may_say_that_it_looks_at_the_test_set(tmp_path: Path) -> None:
    baton.tune(made(on="test"), tmp_path, quiet=True)
    assert {s.validation for s in Store(tmp_path).settings().values()} == {0.0}


def test_runs_that_hold_back_anyway_are_searched_as_they_are(tmp_path: Path) -> None:
    shown = study.parse("made", {"base": {"rounds": 4, "validation": 0.3}, "axes": {"lr": [0.1]}, "tune": {}})
    (choice,) = baton.tune(shown, tmp_path, quiet=True)
    assert {s.validation for s in Store(tmp_path).settings().values()} == {0.3}
    assert choice.trained == choice.chosen


def test_where_there_is_no_test_set_the_metric_itself_is_searched(tmp_path: Path) -> None:
    table = {"base": {"dataset": "quadratic", "rounds": 4}, "axes": {"lr": [0.01, 0.1]}, "tune": {}}
    shown = study.parse("made", {**table, "report": {"metric": "distance", "best": "min"}})
    assert baton.tune(shown, tmp_path, quiet=True)[0].best == "lr = 0.1"
    assert {s.validation for s in Store(tmp_path).settings().values()} == {0.0}


@pytest.mark.parametrize(
    ("tune", "said"),
    [({"on": "train"}, r"\[tune\] on: 'train'; validation or test"), ({"share": 1.0}, r"\[tune\] share: 1.0; a part")],
)
def test_bad_tables_are_one_line(tune: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=f"^{said}"):
        made(**tune)


def test_advice_takes_the_same_rates_where_the_test_labels_are_others(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    rows, tests = draw.normal(size=(200, 4)), draw.normal(size=(80, 4))
    labels, truth = (rows[:, 0] > 0).astype(np.int64), (tests[:, 0] > 0).astype(np.int64)
    sites = np.arange(200) % 4
    chosen = []
    for told in (truth, 1 - truth):
        data = baton.Data(rows, labels, sites=sites, test=(tests, told, np.arange(80) % 4))
        setting = Setting(dataset=data, rounds=20, eval_every=2)  # type: ignore[arg-type]
        sides = baton.advise(setting, ["sequential", "parallel"], "30%", 1, tmp_path, quiet=True).verdict.sides
        chosen.append({name: (own.best.lr, own.best.clip) for name, own in sides.items() if own.best})
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 2
