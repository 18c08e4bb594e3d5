"""Bad settings end in one line that names the field, the value and what would be right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.errors import BadInput
from baton.setting import Setting

BAD = [
    ({"lrr": 0.1}, "lrr: no such setting; did you mean 'lr'"),
    ({"lr": 0}, "lr: 0 is not right: input should be greater than 0"),
    ({"lr": -1.0}, "lr: -1.0"),
    ({"lr": float("nan")}, "lr: nan"),
    ({"lr": float("inf")}, "lr: inf"),
    ({"lr": "0.1"}, "lr: '0.1' is not right"),
    ({"clip": -1.0}, "clip: -1.0"),
    ({"weight_decay": -1e-4}, "weight_decay: -0.0001"),
    ({"local_steps": 0}, "local_steps: 0"),
    ({"local_steps": 2.5}, "local_steps: 2.5"),
    ({"rounds": 0}, "rounds: 0"),
    ({"rounds": True}, "rounds: True"),
    ({"batch_size": 0}, "batch_size: 0"),
    ({"eval_every": 0}, "eval_every: 0"),
    ({"seed": -1}, "seed: -1"),
    ({"seed": 1 << 63}, "seed: "),
    ({"clients": 0}, "clients: 0"),
    ({"clients": 3, "participants": 4}, "participants: 4 is more than clients = 3"),
    ({"clients": None}, "clients: None"),
    ({"dataset": "digit"}, "dataset: no dataset named 'digit'; did you mean 'digits'?"),
    ({"dataset": 3}, "dataset: 3"),
    ({"model": "mpl"}, "model: no model named 'mpl'; did you mean 'mlp'?"),
    ({"model": "mlp:width=3"}, "model: mlp has no parameter 'width'"),
    ({"model": "mlp:hidden=3.5"}, "model: mlp:hidden=3.5 is not a whole number"),
    ({"model": "mlp:hidden"}, "where key=value is right"),
    ({"model": "mlp:hidden=3,hidden=4"}, "gives 'hidden' twice"),
    ({"model": "logistic:hidden=3"}, "it takes none"),
    ({"model": "no.such.module:factory"}, "cannot be imported"),
    ({"algorithm": "sequental"}, "did you mean 'sequential'?"),
    ({"algorithm": "parallel:weighting=sizes"}, "algorithm: parallel has weighting=sizes; 'uniform' or 'size'"),
    ({"algorithm": "parallel:server_lr=0"}, "algorithm: parallel has server_lr=0"),
    ({"schedule": "shuffle"}, "did you mean 'shuffled'?"),
    ({"partition": "exdir:C=1"}, "partition: exdir needs alpha"),
    ({"partition": "exdir:C=one,alpha=1"}, "exdir:C=one is not a whole number"),
    ({"sampling": "with"}, "sampling: 'with'"),
    ({"dtype": "float16"}, "dtype: 'float16'"),
]


@pytest.mark.parametrize(("values", "line"), BAD, ids=[line for _, line in BAD])
def test_refused_in_one_line(values: dict[str, object], line: str) -> None:
    with pytest.raises(BadInput) as error:
        Setting(**values)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_data_set_gives_defaults() -> None:
    quadratic, digits = Setting(dataset="quadratic"), Setting()
    assert (quadratic.model, quadratic.partition, quadratic.clients, quadratic.dtype) == (
        "quadratic",
        "natural",
        2,
        "float64",
    )
    assert (digits.model, digits.partition, digits.participants) == ("logistic", "iid", 10)
    assert Setting(clients=7).participants == 7


def test_one_spelling_one_run() -> None:
    a = Setting(partition="exdir:alpha=10,C=1", lr=1)
    b = Setting(partition="exdir:C=1,alpha=10.0,seed=0", lr=1.0)
    assert a == b
    assert a.run_id == b.run_id
    assert Setting(dataset="quadratic:delta=1/3").dataset == "quadratic:delta=1/3"


def test_every_field_is_in_the_run_id() -> None:
    other = {
        "dataset": "quadratic_random", "partition": "dirichlet:alpha=1", "model": "mlp", "algorithm": "parallel",
        "schedule": "fixed", "clients": 11, "participants": 3, "local_steps": 6, "rounds": 7, "batch_size": 8,
        "sampling": "replacement", "lr": 0.2, "clip": 1.0, "weight_decay": 0.1, "seed": 9, "eval_every": 3,
        "dtype": "float64",
    }  # fmt: skip
    assert set(other) == set(Setting.model_fields)
    ids = {Setting(**{field: value}).run_id for field, value in other.items()} | {Setting().run_id}
    assert len(ids) == len(other) + 1


def test_what_may_differ_inside_a_program() -> None:
    base = Setting(partition="exdir:C=1,alpha=10")
    for change in ({"lr": 0.5}, {"clip": 1.0}, {"weight_decay": 1.0}, {"seed": 5}, {"partition": "iid"}):
        assert Setting(**{**base.model_dump(), **change}).shape_key == base.shape_key
    for change in ({"local_steps": 2}, {"algorithm": "parallel"}, {"model": "mlp"}, {"participants": 2}, {"rounds": 3}):
        assert Setting(**{**base.model_dump(), **change}).shape_key != base.shape_key
    one, two = (Setting(dataset=f"quadratic:zeta={z}") for z in (1, 10))
    assert one.shape_key == two.shape_key
    assert Setting(dataset="quadratic_random:dim=3").shape_key != Setting(dataset="quadratic_random").shape_key


@given(lr=st.floats(1e-300, 1e300), seed=st.integers(0, 2**63 - 1), rounds=st.integers(1, 10**6))
def test_json_and_back(lr: float, seed: int, rounds: int) -> None:
    setting = Setting(lr=lr, seed=seed, rounds=rounds)
    again = Setting.from_json(setting.to_json())
    assert again == setting
    assert again.run_id == setting.run_id


def test_another_format_is_refused() -> None:
    with pytest.raises(BadInput, match="format 99 was written by another version"):
        Setting.from_json(Setting().to_json().replace('"format": 1', '"format": 99'))
