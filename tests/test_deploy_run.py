"""A run over sites, all in this process: it is the simulation, it survives, and it lies in the store like any run."""

import copy
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.deploy.coordinator import Coordinator
from baton.deploy.rules import Desk, Place
from baton.deploy.transport import Ended
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate.engine import Program, advance, start
from baton.store import Snapshot, Store
from contracts.examples import CPU, cases, examples, still
from federation import Field, rules, setting, simulated, train

NOT_HERE = ("alone", "pooled")
SPECS = [*(spec for spec in examples("algorithm") if spec not in NOT_HERE), "fedseq:groups=2"]
FEW = ["sequential", "parallel:weighting=size", "scaffold"]


def simulation(s: Setting, real: bool = True) -> Snapshot:
    """real: the run is one of real sites, and is simulated without what befell it."""
    program = Program([simulated(s) if real else s], CPU)
    *_, last = advance(program, start(program))
    return still(last)


def same(store: Store, s: Setting, at: Snapshot, exact: bool = True) -> None:
    """The stored run has the simulation's parameters."""
    close = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 2e-5, "atol": 2e-6}
    torch.testing.assert_close(store.params(s.run_id), {n: x[0] for n, x in at.state.model.items()}, **close)


@pytest.mark.parametrize("spec", cases(SPECS))
def test_deployed_it_is_the_simulated_run(spec: str, tmp_path: Path) -> None:
    """Parameters to the bit (split legs: to rounding), metrics and modelled traffic too."""
    s, store = setting(spec), Store(tmp_path / "runs")
    at = simulation(s)
    train(s, Field(s, tmp_path), store)
    exact = not spec.startswith(("ssl", "splitfed"))
    same(store, s, at, exact)
    run = store.read(s.run_id)
    for metric, rows in at.history.items():
        found = dict(zip(run.metrics["round"].tolist(), run.metrics[metric], strict=True))
        for round, values in rows:
            assert found[round] == pytest.approx(values[0], rel=1e-6 if exact else 1e-3, abs=1e-9), metric
    assert run.metrics["lost_legs"][-1] == 0
    assert run.metrics["real_bytes_down"][-1] > 0
    assert run.way is not None


class Stops(Desk):
    """Killed before a hop, as often as there are hops."""

    def __init__(self, hops: int) -> None:
        self.left = hops

    def check(self, missing: set[str]) -> None:
        del missing
        self.left -= 1
        if self.left < 0:
            raise Ended


@pytest.mark.parametrize("spec", [*FEW, "fedseq:groups=2", "ssl:cut=1", "ewc"])
def test_a_server_that_dies_at_every_hop_loses_nothing(spec: str, tmp_path: Path) -> None:
    s, store = setting(spec), Store(tmp_path / "runs")
    at, field = simulation(s), Field(s, tmp_path)
    for _ in range(40):
        try:
            train(s, field, store, Stops(1))
            break
        except Ended:
            continue
    else:
        pytest.fail("it never ended")
    same(store, s, at, not spec.startswith("ssl"))


@settings(max_examples=20)
@given(lost=st.sets(st.integers(0, 60), max_size=25), late=st.sets(st.integers(0, 60), max_size=10))
@pytest.mark.parametrize("spec", FEW)
def test_whatever_is_lost_waiting_gives_the_undisturbed_run(
    spec: str, lost: set[int], late: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Lost on the way there or on the way back, trained twice or not: no leg counts twice."""
    folder = tmp_path_factory.mktemp("waiting")
    s, store = setting(spec, rounds=2, eval_every=2), Store(folder / "runs")
    field = Field(s, folder)
    field.losing, field.late = lambda _, number: number in lost, lambda _, number: number in late
    train(s, field, store, wait=60.0)
    same(store, s, simulation(s))


@pytest.mark.parametrize("spec", FEW)
@pytest.mark.parametrize("policy", ["skip", "retry:times=2", "reroute:times=2", "abort"])
def test_the_rules_are_those_of_a_simulation(spec: str, policy: str, tmp_path: Path) -> None:
    """Legs that the simulation draws as lost are lost on their way here: the same run."""
    from baton import failures
    from baton.deploy.messages import Train
    from baton.deploy.wire import unpacked

    drawn = setting(spec, failures="share:p=0.3", on_failure=policy, rounds=6)
    s = Setting(**{**drawn.model_dump(), "failures": "real"})
    program = Program([drawn], CPU)
    *_, at = advance(program, start(program))
    field, store, failing = Field(s, tmp_path), Store(tmp_path / "runs"), failures.failing("share:p=0.3")
    asked: list[bytes] = []

    def losing(site: str, number: int) -> bool:
        del site, number
        message = unpacked(asked[-1])
        if not isinstance(message, Train):
            return False
        order = message.order
        places = torch.full((1, 1, 1 + order.attempt), order.client)
        return bool(failures.lost(failing, torch.tensor([s.seed]), order.round, places)[0, 0, -1])

    plain = field.call

    def call(site: str, frame: bytes, seconds: float) -> bytes:
        asked.append(frame)
        return plain(site, frame, seconds)

    field.call, field.losing = call, losing  # type: ignore[method-assign]
    train(s, field, store)
    same(store, s, at, exact=spec != "scaffold")  # where nothing may be lost it sums in another order
    assert store.read(s.run_id).metrics["lost_legs"][-1] > 0


def test_a_chain_goes_on_with_another_site_and_the_lost_one_comes_later(tmp_path: Path) -> None:
    s = setting("sequential", clients=5, participants=5, rounds=1, eval_every=1)
    field, store = Field(s, tmp_path), Store(tmp_path / "runs")
    order = Coordinator(s, rules(field), field, store).server.schedule.draw(
        torch.tensor([s.seed]), torch.tensor([0]), 5, 5
    )[0]
    first = f"site-{int(order[0])}"
    lost = itertools.count()
    field.losing = lambda site, _: site == first and next(lost) in (2,)  # after Look and the first evaluation
    legs: list[str] = []

    class Notes(Desk):
        def at(self, place: Place) -> None:
            legs.extend([place.holder] if place.holder else [])

    train(s, field, store, Notes(), later=True)
    assert store.read(s.run_id).metrics["lost_legs"][-1] == 0
    trained = field.calls[10:-5]  # between the first look and the last evaluation
    assert sorted(set(trained)) == sorted(field.sites)  # everybody's samples were used
    assert trained[0] == first
    assert trained[1] == f"site-{int(order[1])}"
    assert trained[2] == first or trained.count(first) == 2


def test_a_lost_site_is_skipped_and_joins_again(tmp_path: Path) -> None:
    s = setting("sequential", participants=5, rounds=4, eval_every=4)
    field, store = Field(s, tmp_path), Store(tmp_path / "runs")
    seen: list[Place] = []

    class Notes(Desk):
        def at(self, place: Place) -> None:
            seen.append(place)
            if place.round == 1:
                field.gone = {"site-2"}
            if place.round == 3:
                field.gone = set()

    train(s, field, store, Notes())
    assert {place.missing for place in seen if place.round == 2} == {("site-2",)}
    assert seen[-1].missing == ()
    assert 1 <= store.read(s.run_id).metrics["lost_legs"][-1] <= 2
    assert any(place.says == "site-2: no answer in time" for place in seen)


class Deserted(Desk):
    """Everybody is gone from some hop on; a real server's job ends there, and another one begins."""

    def __init__(self, field: Field, hop: int) -> None:
        self.field, self.left = field, hop

    def check(self, missing: set[str]) -> None:
        del missing
        self.left -= 1
        if not self.left:
            self.field.gone = set(self.field.sites)

    def deserted(self) -> None:
        raise Ended


@pytest.mark.parametrize("policy", ["skip", "retry:times=2", "abort"])
@pytest.mark.parametrize("spec", [*FEW, "ssl:cut=1"])
def test_where_nobody_answers_no_leg_is_lost(spec: str, policy: str, tmp_path: Path) -> None:
    """A server whose own link is gone does not run on alone to the end."""
    s, store = setting(spec, on_failure=policy), Store(tmp_path / "runs")
    field, ends = Field(s, tmp_path), 0
    for hop in (1, 2, 3, 4, 100):
        field.gone = set()
        try:
            train(s, field, store, Deserted(field, hop))
            break
        except Ended:
            ends += 1
    assert ends >= 2
    same(store, s, simulation(s), exact=not spec.startswith("ssl"))
    assert store.read(s.run_id).metrics["lost_legs"][-1] == 0


def test_sites_that_restart_find_what_they_kept(tmp_path: Path) -> None:
    s, store = setting("scaffold"), Store(tmp_path / "runs")
    field = Field(s, tmp_path)

    class Restarts(Desk):
        def check(self, missing: set[str]) -> None:
            del missing
            for site in field.sites:
                field.restart(site)

    train(s, field, store, Restarts())
    same(store, s, simulation(s))


def test_a_site_that_lost_what_it_kept_says_so(tmp_path: Path) -> None:
    s, store = setting("scaffold", participants=5), Store(tmp_path / "runs")
    field, seen = Field(s, tmp_path), []

    class Forgets(Desk):
        def check(self, missing: set[str]) -> None:
            del missing
            for path in (tmp_path / "site-1").glob("*"):
                path.unlink()

        def at(self, place: Place) -> None:
            seen.append(place.says)

    train(s, field, store, Forgets())
    assert "site-1: it refuses: what it kept for this run is gone" in seen


def test_two_servers_do_not_train_one_run(tmp_path: Path) -> None:
    s, store = setting("sequential"), Store(tmp_path / "runs")
    field = Field(s, tmp_path)

    class Second(Desk):
        def check(self, missing: set[str]) -> None:
            del missing
            with pytest.raises(BadInput, match="being trained by another process"):
                train(s, copy.copy(field), Store(tmp_path / "runs"))

    train(s, field, store, Second())
    assert store.complete(s.run_id)


def test_it_is_in_the_store_while_it_trains_and_is_not_simulated(tmp_path: Path) -> None:
    s, store = setting("parallel", rounds=4, eval_every=1), Store(tmp_path / "runs")
    field = Field(s, tmp_path)
    with pytest.raises(Ended):
        train(s, field, store, Stops(2))
    run = Store(tmp_path / "runs").read(s.run_id)
    assert not run.complete
    assert run.metrics["round"].tolist() == [0, 1, 2]
    train(s, field, store)
    assert store.read(s.run_id).complete
    assert not store.pool.chunks()
    assert np.isfinite(store.read(s.run_id).metrics["test_loss"]).all()
    with pytest.raises(BadInput, match="'real' is for runs over real sites"):
        Program([s], CPU)


@pytest.mark.parametrize(
    "more",
    [
        {"epochs": 2, "local_steps": 0},
        {"momentum": 0.9, "sampling": "balanced"},
        {"schedule": "markov", "lr_schedule": "cosine"},
    ],
)
def test_whatever_a_leg_depends_on_crosses(more: dict[str, object], tmp_path: Path) -> None:
    s, store = setting("parallel:weighting=size", **more), Store(tmp_path / "runs")
    train(s, Field(s, tmp_path), store)
    same(store, s, simulation(s))


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"algorithm": "alone"}, "algorithm: alone sends no model anywhere"),
        ({"schedule": "sized"}, "schedule: sized asks what clients hold"),
        ({"validation": 0.2}, "validation: 0.2; sites hold no training samples back"),
        ({"metrics": "per_class"}, "metrics: per_class; sites do not tell classes apart"),
    ],
)
def test_what_sites_do_not_do_is_refused_in_one_line(more: dict[str, object], line: str, tmp_path: Path) -> None:
    s = setting("sequential")
    field, asked = Field(s, tmp_path), Setting(**{**s.model_dump(), **more})
    with pytest.raises(BadInput, match=line):
        Coordinator(asked, rules(field), field, Store(tmp_path / "runs"))
    assert not field.calls


def test_a_federation_has_as_many_sites_as_its_run_has_clients(tmp_path: Path) -> None:
    s = setting("parallel")
    field = Field(s, tmp_path)
    with pytest.raises(BadInput, match="sites: 1 of them for clients = 5"):
        Coordinator(s, rules(field, sites=("site-1",)), field, Store(tmp_path / "runs"))
