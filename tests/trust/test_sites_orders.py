"""A site does what its run says, and nothing else that a server may order."""

from pathlib import Path

import pytest
import torch

from attacks import ask, heard, order, plain, rows, site, zeros
from baton.algorithms import ALGORITHMS
from baton.deploy.messages import Here, Look, Refused, Train, Trained
from baton.deploy.site import Site
from contracts.examples import examples

pytestmark = pytest.mark.trust

NOT_WHOLE = ("alone", "pooled", "ssl", "splitfed")  # send nothing, or a layer's outputs
WHOLE = {spec.partition(":")[0]: spec for spec in reversed(examples("algorithm"))}  # the first example of each name
WHOLE["ewc"] = "ewc:strength=0"  # the legs that it has otherwise take seconds to begin


def test_one_step_of_one_row_is_not_trained_and_no_row_comes_out(tmp_path: Path) -> None:
    """A gradient of one row is the row times a number, and the number."""
    held, s, found = rows(), plain(), []
    at = site(tmp_path, held, algorithms=["parallel"], models=["logistic"], metrics=False, sizes=False)
    for round in range(40):
        said = ask(at, Train(s.to_json(), f"{round}.0", "", order(s, round=round, local_steps=1, batch_size=1, lr=1.0)))
        if isinstance(said, Trained):
            (w,), (b,) = [[v for v in said.answer.model.values() if v.dim() == d] for d in (2, 1)]
            found.append(w[0] / b[0])
    near = [] if not found else torch.cdist(torch.stack(found), held.x).min(1).values.tolist()
    assert [far for far in near if far < 1e-2] == []


WRONG = {
    "local_steps": 1,
    "batch_size": 1,
    "lr": 0.2,
    "clip": 1.0,
    "weight_decay": 0.5,
    "momentum": 0.9,
    "seed": 7,
    "round": 9,
    "client": 2,
    "pull": 0.1,
    "still": True,
}


@pytest.mark.parametrize("field", WRONG)
def test_an_order_that_its_run_does_not_say_is_refused(field: str, tmp_path: Path) -> None:
    s, at = plain(), site(tmp_path)
    assert isinstance(ask(at, Train(s.to_json(), "0.0", "", order(s))), Trained)
    said = ask(at, Train(s.to_json(), "0.1", "", order(s, **{field: WRONG[field]})))
    assert isinstance(said, Refused)


@pytest.mark.parametrize("field", ["anchor", "shift", "sent", "stiff"])
def test_a_term_that_its_algorithm_has_not_is_refused(field: str, tmp_path: Path) -> None:
    s, at = plain("fedprox:mu=0.5"), site(tmp_path)
    right = order(s, pull=0.5)
    assert isinstance(ask(at, Train(s.to_json(), "0.0", "", right)), Trained)
    said = ask(at, Train(s.to_json(), "0.1", "", right._replace(**{field: zeros(s)})))
    assert isinstance(said, Refused)


@pytest.mark.parametrize("pull", [None, 0.4])
def test_another_pull_than_its_algorithm_has_is_refused(pull: float | None, tmp_path: Path) -> None:
    s, at = plain("fedprox:mu=0.5"), site(tmp_path)
    assert isinstance(ask(at, Train(s.to_json(), "0.1", "", order(s, pull=pull))), Refused)


def test_the_rate_is_that_of_the_round_at_most(tmp_path: Path) -> None:
    s, at = plain(lr_schedule="step:every=3,factor=0.5"), site(tmp_path)
    late = ask(at, Train(s.to_json(), "5.0", "", order(s, round=5, lr=0.05)))
    assert isinstance(late, Trained)
    assert isinstance(ask(at, Train(s.to_json(), "5.1", "", order(s, round=5, lr=0.1))), Refused)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in NOT_WHOLE])
def test_every_algorithm_is_held_to_its_run(name: str, tmp_path: Path) -> None:
    """A rate of the server's own, in the orders that its honest server gave."""
    legs, field = heard(WHOLE[name], tmp_path)
    (tmp_path / "attacked").mkdir()
    at = Site(field.held["site-0"], field.policy, tmp_path / "attacked")
    first = legs[0]
    assert isinstance(ask(at, first), Trained)
    larger = first.order._replace(lr=first.order.lr * 10)
    assert isinstance(ask(at, first._replace(leg="9.9", order=larger)), Refused)


@pytest.mark.parametrize(("steps", "batch", "held"), [(1, 15, 40), (5, 3, 40), (5, 20, 15)])
def test_a_leg_on_fewer_than_sixteen_rows_is_refused_before_the_run(
    steps: int, batch: int, held: int, tmp_path: Path
) -> None:
    s = plain(local_steps=steps, batch_size=batch)
    at = site(tmp_path, rows(held))
    for message in (Look(s.to_json()), Train(s.to_json(), "0.0", "", order(s))):
        assert isinstance(ask(at, message), Refused)


def test_rows_that_are_drawn_twice_count_once(tmp_path: Path) -> None:
    """Sixteen draws with replacement from 40 rows are hardly ever sixteen rows."""
    s, at = plain(local_steps=1, batch_size=16, sampling="replacement"), site(tmp_path)
    assert isinstance(ask(at, Look(s.to_json())), Here)
    assert isinstance(ask(at, Train(s.to_json(), "0.0", "", order(s))), Refused)


@pytest.mark.parametrize("spec", ["ssl:cut=1", "splitfed:cut=1", "switch:first=ssl:cut=1,then=ssl:cut=1,after=1"])
def test_split_methods_are_refused_unless_a_policy_names_them(spec: str, tmp_path: Path) -> None:
    """The server chooses the client's side of the model, so that a layer's outputs can be the rows."""
    s = plain(spec, model="mlp:hidden=4")
    assert isinstance(ask(site(tmp_path / "as-written"), Look(s.to_json())), Refused)
    names = ["ssl", "splitfed", "switch"]
    assert isinstance(ask(site(tmp_path / "named", algorithms=names), Look(s.to_json())), Here)
