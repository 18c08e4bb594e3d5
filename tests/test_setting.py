"""Bad settings end in one line that names the field, the value and what would be right."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baton.algorithms import ALGORITHMS, build
from baton.errors import BadInput
from baton.failures import Failing, Policy, failing, policy
from baton.names import lane
from baton.setting import Setting, _written, kin

BAD = [
    ({"lrr": 0.1}, "lrr: no such setting; did you mean 'lr'"),
    ({"lr": 0}, "lr: 0 is not right: input should be greater than 0"),
    ({"lr": -1.0}, "lr: -1.0"),
    ({"lr": float("nan")}, "lr: nan"),
    ({"lr": float("inf")}, "lr: inf"),
    ({"lr": "0.1"}, "lr: '0.1' is not right"),
    ({"clip": -1.0}, "clip: -1.0"),
    ({"weight_decay": -1e-4}, "weight_decay: -0.0001"),
    ({"momentum": -0.1}, "momentum: -0.1"),
    ({"momentum": 1.0}, "momentum: 1.0 is not right: input should be less than 1"),
    ({"lr_schedule": "cosin"}, "lr_schedule: no lr_schedule named 'cosin'; did you mean 'cosine'?"),
    ({"lr_schedule": "cosine", "rounds": 0}, "rounds: 0"),
    ({"lr_schedule": "cosine", "rounds": True}, "rounds: True"),
    ({"lr_schedule": 3}, "lr_schedule: 3"),
    ({"failures": "shares:p=1"}, "failures: no failures named 'shares'; did you mean 'share'?"),
    ({"failures": "share"}, "failures: share needs p"),
    ({"failures": "share:p=1.5"}, "failures: share has p=1.5; a probability, 0 <= p <= 1, is right"),
    ({"failures": "share:p=nan"}, "failures: share has p=nan"),
    ({"failures": "clients:who=3,p=-1"}, "failures: clients has p=-1"),
    ({"failures": "clients:who=7+3"}, "who=7+3; numbers from 0 in rising order, such as 3+7+11, are right"),
    ({"failures": "clients:who=3+3"}, "who=3+3; numbers"),
    ({"failures": "clients:who=03"}, "who=03; numbers"),
    ({"failures": "clients:who=-1"}, "who=-1; numbers"),
    ({"failures": "clients:who=3+"}, "who=3+; numbers"),
    ({"failures": "clients:who=3++7"}, "who=3++7; numbers"),
    ({"failures": "clients:who=all"}, "who=all; numbers"),
    ({"failures": "clients:who=9+10"}, "failures: clients:who=9+10 has client 10; 0 to 9 is right"),
    ({"failures": "user_modules:falling"}, "failures: 'user_modules:falling' failed (TypeError"),
    ({"failures": "user_modules:reversed_sequential"}, "gives Algorithm; a Failing is right"),
    ({"on_failure": "retry:times=0"}, "on_failure: retry has times=0; at least 1 is right"),
    ({"on_failure": "retri"}, "on_failure: no on_failure named 'retri'; did you mean 'retry'?"),
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
    ({"algorithm": "parallel:server_lr=0"}, "algorithm: parallel:server_lr=0; above 0 is right"),
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
        "dtype": "float64", "momentum": 0.9, "lr_schedule": "cosine", "failures": "share:p=0.1", "on_failure": "abort",
        "epochs": 2, "metrics": "auc", "validation": 0.2, "dp": "gaussian",
    }  # fmt: skip
    assert set(other) == set(Setting.model_fields)
    ids = {Setting(**{field: value}).run_id for field, value in other.items()} | {Setting().run_id}
    assert len(ids) == len(other) + 1


def test_every_field_is_written_and_only_the_rounds_are_not_kin() -> None:
    setting = Setting(momentum=0.5, epochs=3, metrics="auc,calibration:bins=3", dp="gaussian:clip=2,noise=0.5")
    assert set(json.loads(setting.to_json())) == {"format", *Setting.model_fields}
    assert Setting.from_json(setting.to_json()) == setting
    assert kin(setting.to_json()) == (re.sub(r'\n "rounds": \d+,', "", setting.to_json()), setting.rounds)
    longer = Setting(**{**setting.model_dump(), "rounds": 200})
    assert (longer.kin, longer.run_id == setting.run_id) == (setting.kin, False)
    assert Setting(**{**setting.model_dump(), "momentum": 0.6}).kin != setting.kin


@pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
def test_what_is_no_setting_is_nobodys_beginning(text: str) -> None:
    assert kin(text)[1] == 0
    assert kin(text)[0] != Setting().kin
    with pytest.raises(BadInput, match=r"setting\.json: format: got None"):
        Setting.from_json(text)


def test_what_failures_and_policies_say() -> None:
    assert failing("none") == Failing(0.0, ())
    assert failing("share:p=1/4") == Failing(0.25, ())
    assert failing("clients:who=0+7+11") == Failing(1.0, (0, 7, 11))
    assert failing("clients:who=3,p=0.5") == Failing(0.5, (3,))
    assert [policy(spec) for spec in ("skip", "retry", "reroute:times=1", "abort")] == [
        Policy(tries=0, elsewhere=False, abort=False),
        Policy(tries=2),
        Policy(tries=1, elsewhere=True),
        Policy(abort=True),
    ]
    assert Setting(failures="clients:p=1,who=3").failures == "clients:who=3"


def prox(*, mu: Tensor = lane(0.01, least=0.0), nu: Tensor = lane(1), order: int = 1):  # noqa: ARG001
    return build("sequential")


def changed(base: Setting, **change: object) -> Setting:
    return Setting(**{**base.model_dump(), **change})


def test_what_may_differ_inside_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALGORITHMS, "prox", prox)
    base = Setting(partition="exdir:C=1,alpha=10", algorithm="prox", rounds=50)
    own = {
        "lr": 0.5, "clip": 1.0, "weight_decay": 1.0, "seed": 5, "partition": "iid", "momentum": 0.9,
        "lr_schedule": "cosine:over=7",
    }  # fmt: skip
    for field, value in own.items():
        assert changed(base, **{field: value}).shape_key == base.shape_key, field
    for spec in ("prox:mu=1", "prox:mu=0,nu=3", "prox:order=1"):
        assert changed(base, algorithm=spec).shape_key == base.shape_key, spec
        assert (changed(base, algorithm=spec).run_id == base.run_id) == (spec == "prox:order=1")
    same = {
        "local_steps": 2, "model": "mlp", "participants": 2, "rounds": 3, "failures": "share:p=0.5",
        "on_failure": "abort", "schedule": "fixed", "dtype": "float64",
    }  # fmt: skip
    for field, value in same.items():
        assert changed(base, **{field: value}).shape_key != base.shape_key, field
    for spec in ("parallel", "prox:order=2", "prox:mu=1,order=2"):
        assert changed(base, algorithm=spec).shape_key != base.shape_key, spec
    assert changed(base, failures="share:p=0.5").shape_key != changed(base, failures="share:p=0.6").shape_key
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
    with pytest.raises(BadInput, match="format: got 99; expected"):
        Setting.from_json(Setting().to_json().replace('"format": 3', '"format": 99'))


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.floats() | st.text()))
def test_a_setting_is_written_as_json_would_write_it(values: dict[str, object]) -> None:
    assert _written(values) == json.dumps(values, indent=1, sort_keys=True) + "\n"


def test_replace_changes_fields_and_checks_them() -> None:
    setting = Setting(rounds=4)
    assert setting.replace(seed=2, lr=0.5) == Setting(rounds=4, seed=2, lr=0.5)
    assert setting.replace() == setting.model_copy() == setting
    with pytest.raises(BadInput, match="participants: 99"):
        setting.replace(participants=99)
    with pytest.raises(BadInput, match="rate"):
        setting.replace(rate=1)
