"""A run's bytes are its own: those of its algorithm's numbers, and of the clients that it chose."""

from pathlib import Path

import numpy as np
import pytest
import torch

import baton
from baton.simulate.engine import Program

pytestmark = pytest.mark.trust
SMALL = {"dataset": "digits", "clients": 6, "participants": 3, "local_steps": 1, "rounds": 4, "dtype": "float64"}
BYTES = ("bytes_up", "bytes_down", "bytes_peer")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ewc:strength=0", "ewc:strength=1"),
        ("scaffold:of=sequential", "scaffold:of=sequential,server_lr=0.5"),
        ("amplified:every=2,of=sequential", "amplified:every=2,of=sequential,server_lr=0.5"),
    ],
)
def test_a_lane_sends_what_it_would_send_alone(first: str, second: str, tmp_path: Path) -> None:
    both = [baton.Setting(**SMALL, algorithm=spec) for spec in (first, second)]
    together = baton.run(both, tmp_path / "together", device="cpu", quiet=True)
    for setting, run in zip(both, together, strict=True):
        (alone,) = baton.run(setting, tmp_path / "alone", device="cpu", quiet=True)
        for column in BYTES:
            np.testing.assert_array_equal(run.metrics[column], alone.metrics[column])


@pytest.mark.parametrize("spec", ["scaffold", "scaffold:of=sequential", "amplified_scaffold:every=2"])
def test_controls_are_sent_inside_a_switch_too(spec: str, tmp_path: Path) -> None:
    inside = f"switch:first=parallel,then={spec.replace(',', '+')},after=0"
    both = [baton.Setting(**SMALL, algorithm=name) for name in (spec, inside)]
    alone, run = baton.run(both, tmp_path, device="cpu", quiet=True)
    for column in BYTES:
        assert run.last(column) == alone.last(column)


def test_legs_are_lost_at_the_clients_that_a_method_chose(tmp_path: Path) -> None:
    """Client 0 never answers; models stay at the same clients for three rounds, whoever the schedule draws."""
    lost = {"failures": "clients:who=0", "rounds": 9, "eval_every": 9, "seed": 3}
    setting = baton.Setting(**{**SMALL, **lost}, algorithm="feddc:every=4,swap=3")
    (run,) = baton.run(setting, tmp_path, device="cpu", quiet=True)
    drawn = Program([setting], torch.device("cpu")).orders(range(9))[0].tolist()
    came = sum(3 - (0 in drawn[number // 3 * 3]) for number in range(9))
    one = baton.run(baton.Setting(**SMALL, algorithm="parallel"), tmp_path, device="cpu", quiet=True)[0].last(
        "bytes_up"
    ) / (4 * 3)
    assert run.last("bytes_up") == came * one
