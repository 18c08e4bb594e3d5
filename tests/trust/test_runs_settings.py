"""A setting is checked however it was made, before anything is trained by it."""

from pathlib import Path
from typing import Any

import pytest

import baton

pytestmark = pytest.mark.trust

WRONG: dict[str, Any] = {
    "participants": 99,
    "lr": -1.0,
    "clip": float("nan"),
    "validation": 2.0,
    "seed": -1,
    "momentum": 1.5,
    "weight_decay": -1.0,
    "local_steps": -3,
    "rounds": 0,
    "eval_every": 0,
    "batch_size": 0,
    "dtype": "int8",
    "algorithm": "no_such_algorithm",
}


def sound() -> baton.Setting:
    return baton.Setting(dataset="breast_cancer", rounds=4, participants=2)


@pytest.mark.parametrize("field", WRONG)
def test_a_changed_copy_is_checked(field: str) -> None:
    with pytest.raises(baton.BadInput, match=field) as error:
        sound().model_copy(update={field: WRONG[field]})
    assert len(str(error.value).splitlines()) == 1


def test_numbers_in_words_are_refused() -> None:
    with pytest.raises(baton.BadInput, match=r"lr: '0\.1'"):
        sound().model_copy(update={"lr": "0.1"})


def test_a_changed_copy_has_the_id_of_the_same_setting() -> None:
    typed = baton.Setting(dataset="breast_cancer", rounds=4, participants=2, algorithm="fedprox:mu=0.01")
    assert sound().model_copy(update={"algorithm": "fedprox:mu=0.01"}).run_id == typed.run_id


@pytest.mark.parametrize("field", ["participants", "lr", "validation", "batch_size"])
def test_what_was_made_past_the_checks_is_refused_before_anything_is_trained(field: str, tmp_path: Path) -> None:
    bad = baton.Setting.model_construct(**{**sound().model_dump(), field: WRONG[field]})
    with pytest.raises(baton.BadInput, match=field):
        baton.run([sound(), bad], tmp_path, quiet=True)
    assert baton.Store(tmp_path).ids() == []
    (run,) = baton.run(sound(), tmp_path, quiet=True)
    assert baton.Store(tmp_path).ids() == [run.id]
