"""Noise on legs is a function of all that a leg depends on; what a site keeps under a leg's name is written once."""

from pathlib import Path

import pytest

from attacks import apart, ask, asked_twice, heard
from baton.deploy.messages import Refused, Trained
from baton.deploy.site import Site

pytestmark = pytest.mark.trust

KEEPING = [  # methods whose clients keep something
    "scaffold",
    "scaffold:of=sequential",
    "feddyn",
    "amplified_scaffold:every=2",
    "switch:first=scaffold,then=feddyn,after=4",
]


@pytest.mark.parametrize("spec", KEEPING)
def test_one_name_given_twice_does_not_take_the_noise_away(spec: str, tmp_path: Path) -> None:
    """Two answers are the same to the bit, or each has noise of its own, of 5 on each of 450 numbers, and is booked."""
    one, _, two, before, after = asked_twice(spec, tmp_path)
    assert apart(one, two) == 0 or (apart(one, two) > 50 and after > before)


@pytest.mark.parametrize("spec", KEEPING)
def test_a_legs_name_is_written_once(spec: str, tmp_path: Path) -> None:
    legs, field = heard(spec, tmp_path)
    (tmp_path / "attacked").mkdir()
    at = Site(field.held["site-0"], field.policy, tmp_path / "attacked")
    first, second = legs[:2]
    assert isinstance(ask(at, first), Trained)
    other = first.order._replace(model={n: x + 1 for n, x in first.order.model.items()})
    assert isinstance(ask(at, first._replace(order=other)), Refused)
    assert isinstance(ask(at, second), Trained)
