"""A run that was extended has the bytes of one that was trained at once, whatever is kept between its rounds."""

from pathlib import Path

import pytest

import baton
from baton.setting import Setting
from baton.store import Store

HALF = 5  # rounds: inside a period, an epoch and a phase of the methods below
KEEPING = [  # methods that keep something at clients or at the server
    "scaffold",
    "scaffold:of=sequential",
    "feddyn:alpha=0.2",
    "amplified:every=3,server_lr=1.5",
    "amplified_scaffold:every=3,server_lr=1.5",
    "feddc:every=3,swap=2",
    "fedseqinter:groups=3,every=3",
    "flgrab",
    "pairgrab",
    "ewc:strength=0.5",
    "fedavgm",
    "fedadam:server_lr=0.01",
    "fedadagrad",
    "fedyogi:server_lr=0.01,of=sequential",
    "sequential:ema=0.5",
    "alone",
    "switch:first=feddyn,then=scaffold,after=4",
    "switch:first=sequential,then=feddc:every=3,after=7",
]
BASE: dict[str, object] = {
    "dataset": "digits",
    "partition": "exdir:C=3,alpha=1",
    "clients": 6,
    "participants": 3,
    "local_steps": 2,
    "batch_size": 5,
    "lr": 0.1,
    "clip": 0.2,
    "momentum": 0.5,
    "eval_every": 1,
}
LEGS: dict[str, dict[str, object]] = {
    "C": {"model": "mlp:hidden=4"},
    "torch": {"model": "mlp:hidden=4", "dtype": "float64"},
    "an own module": {"model": "user_modules:tiny:width=4"},
}
ABORT: dict[str, object] = {"failures": "share:p=0.15", "on_failure": "abort"}


@pytest.mark.parametrize(
    ("legs", "lost"),
    [
        pytest.param("C", ABORT, id="C, rounds aborted"),
        pytest.param("an own module", ABORT, id="an own module, rounds aborted"),
        pytest.param("torch", ABORT, marks=pytest.mark.long, id="torch, rounds aborted"),
        *(pytest.param(legs, {}, marks=pytest.mark.long, id=legs) for legs in LEGS),
    ],
)
def test_every_method_that_keeps_something_goes_on_to_the_same_bytes(
    legs: str, lost: dict[str, object], tmp_path: Path
) -> None:
    def runs(rounds: int) -> list[Setting]:
        return [Setting(**{**BASE, **LEGS[legs], **lost, "algorithm": a, "rounds": rounds}) for a in KEEPING]

    whole, folders = runs(2 * HALF), (tmp_path / "extended", tmp_path / "at once")
    baton.run(runs(HALF), folders[0], quiet=True)
    assert set(Store(folders[0]).begun(whole, "fp32").values()) == {HALF}
    for folder in folders:
        baton.run(whole, folder, quiet=True)
    for s in whole:
        for name in ("state.safetensors", "metrics.csv"):
            one, two = (folder / s.run_id / name for folder in folders)
            assert one.read_bytes() == two.read_bytes(), (s.algorithm, name)
