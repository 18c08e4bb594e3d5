"""Random settings of every method: Baton's runs against the reference's."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import baton
from baton.algorithms import ALGORITHMS
from reference.compare import compare
from reference.many import hold
from reference.run import METHODS
from reference.settings import DATA, programs

SECONDS = 20 * 60 / len(METHODS)  # of each method, in the long test


def test_every_registered_method_has_its_reference() -> None:
    assert set(METHODS) == set(ALGORITHMS)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_runs_agree_with_the_reference(
    method: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lanes: list[baton.Setting] = data.draw(programs(methods=(method,)))
    for result in compare(lanes, tmp_path_factory.mktemp("runs")):
        assert not result.differences, "\n".join(map(str, result.differences))


SMALL = {"dataset": DATA["three"], "partition": "iid", "clients": 5, "local_steps": 2, "rounds": 6, "batch_size": 4}
ONCE_WRONG = {
    "orders where S does not divide M": ({"participants": 4}, ["pairgrab"]),
    "orders where clients have no turn": ({"participants": 2, "schedule": "sized"}, ["flgrab"]),
    "bytes of lanes with other numbers": ({"participants": 2}, ["ewc:strength=0", "ewc:strength=1"]),
    "bytes of controls inside a switch": ({"participants": 2}, ["switch:first=parallel,then=scaffold,after=2"]),
    "columns of all clients": ({"participants": 5, "schedule": "replacement"}, ["parallel"]),
    "bytes of legs that are lost": ({"participants": 2, "failures": "share:p=0.4"}, ["feddc:every=3,swap=3"]),
}


@pytest.mark.trust
@pytest.mark.parametrize("what", ONCE_WRONG)
def test_settings_that_once_disagreed(what: str, tmp_path: Path) -> None:
    own, specs = ONCE_WRONG[what]
    lanes = [baton.Setting(**SMALL, **own, dtype="float64", algorithm=spec) for spec in specs]
    for result in compare(lanes, tmp_path):
        assert not result.differences, "\n".join(map(str, result.differences))


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_many_runs_agree_with_the_reference(method: str, tmp_path: Path) -> None:
    until = time.monotonic() + SECONDS
    first = 10_000 * list(METHODS).index(method)
    count = hold(method, first, lambda count: bool(count.differences) or time.monotonic() > until, tmp_path / "runs")
    assert not count.differences, "\n".join(map(str, count.differences))
    assert count.settings
