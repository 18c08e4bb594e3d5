"""A run's id knows what the run is made of; a setting in a store is read without importing or loading anything."""

import copy
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import baton
from baton import caches, cli, datasets, study
from baton.clients import owners
from baton.datasets import cifar10, decoded, digits
from baton.datasets.base import Dataset, cross_entropy
from baton.datasets.content import of_arrays, of_dataset
from baton.errors import BadInput
from baton.setting import FORMAT, MadeOf, Setting, kin
from made_data import IDX, idx_bytes, made, write_all, write_cifar, write_idx
from test_usercode import forget, python, write

pytest_plugins = ["fixtures_data"]

TYPED: list[dict[str, Any]] = [
    {},
    {"dataset": "quadratic:zeta=3,delta=1/4", "seed": 7},
    {"dataset": "quadratic_random:dim=3,sigma=0.5", "momentum": 0.9},
    {"algorithm": "scaffold", "failures": "share:p=0.1", "rounds": 40},
]
OF_FILES = [{"dataset": "mnist"}, {"dataset": "cifar10", "partition": "exdir:C=2,alpha=10"}]

EVERY = pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cinic10"])


@pytest.mark.parametrize("fields", TYPED)
def test_what_the_spec_says_alone_is_made_of_nothing_else(fields: dict[str, Any]) -> None:
    setting = Setting(**fields)
    assert setting.made_of == MadeOf()
    assert setting.run_id == setting.key
    assert json.loads(setting.to_json())["format"] == FORMAT


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("fields", OF_FILES)
def test_the_key_needs_no_data(fields: dict[str, Any]) -> None:
    setting = Setting(**fields)
    assert len(setting.key) == 16
    with pytest.raises(BadInput, match=f"no {setting.dataset} in"):
        _ = setting.run_id
    two = {"base": {"dataset": "mnist"}, "groups": {"a": {"lr": 0.1}, "b": {"lr": 0.2}}}
    assert len(study.parse("two", two).settings) == 2
    with pytest.raises(BadInput, match=r"groups.b: the run of sequential \(lr = 0.1, seed = 1, ...\) is in groups.a"):
        study.parse("two", two | {"groups": {"a": {"lr": 0.1}, "b": {"lr": 0.1}}})


# --- data


@EVERY
def test_other_samples_under_the_same_name_are_another_run(data: Path, name: str) -> None:
    write_all(data)
    before = Setting(dataset=name)
    first = before.run_id
    found = json.loads(before.to_json())
    assert found["format"] == FORMAT
    assert found["made_of"] == {"data": datasets.load(name, 500).content}
    assert Setting.from_json(before.to_json()).run_id == first
    datasets.forget()
    assert Setting(dataset=name).run_id == first
    write_all(data, train=100)
    datasets.forget()
    after = Setting(dataset=name)
    assert (after.key, after.run_id == first, after.kin == before.kin) == (before.key, False, False)
    assert after == before  # what was typed


def test_one_other_label_is_another_run(data: Path) -> None:
    write_idx(data / "mnist", packed=False)
    first = Setting(dataset="mnist").run_id
    _, y = made(40, (28, 28), 1)
    y[7] = 3
    (data / "mnist" / IDX[1]).write_bytes(idx_bytes(y))
    datasets.forget()
    assert Setting(dataset="mnist").run_id != first


def test_how_files_are_packed_does_not_matter(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "RECORDS", 20)
    found: dict[str, set[str]] = {"mnist": set(), "cifar10": set()}
    for place, packed, form in ((data, True, "py"), (tmp_path / "other", False, "bin")):
        write_idx(place / "mnist", packed=packed)
        write_cifar(place, form=form)
        monkeypatch.setenv("BATON_DATA", str(place))
        datasets.forget()
        for name, ids in found.items():
            ids.add(Setting(dataset=name).run_id)
    assert [len(ids) for ids in found.values()] == [1, 1]


def test_a_second_start_hashes_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(data / "mnist")
    first = datasets.load("mnist", 10)
    assert first.content == of_arrays([np.asarray(array) for array in first[:4]])

    def again(*_: object) -> str:
        raise AssertionError

    monkeypatch.setattr(decoded, "of_arrays", again)
    datasets.forget()
    assert datasets.content("mnist", 10) == first.content


@pytest.mark.parametrize("damage", ["0" * 16, "", None, 3])
def test_a_damaged_fingerprint_is_made_anew(data: Path, damage: object) -> None:
    write_idx(data / "mnist")
    first = datasets.content("mnist", 10)
    (path,) = caches.cache().glob("decoded/mnist-*/checksums.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "content": damage}))
    datasets.forget()
    assert datasets.content("mnist", 10) == first


def test_digits_are_known_without_their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from baton.setting import Setting; print(Setting().run_id, 'sklearn' in sys.modules)"
    key = Setting().key
    assert python("-c", code, cwd=tmp_path) == f"{key} False"
    monkeypatch.setattr(digits, "KNOWN", "of other images")
    for place in ("here", "gone"):
        if place == "gone":
            monkeypatch.setattr(digits, "find_spec", lambda _: None)
        digits.content.cache_clear()
        datasets.forget()
        setting = Setting()
        assert (setting.key, setting.run_id == setting.key) == (key, False)
        assert len(setting.made_of.data) == 16
    monkeypatch.undo()
    digits.content.cache_clear()
    datasets.forget()
    assert Setting().run_id == key


def own(**other: Any) -> Dataset:
    x, y = torch.arange(12.0).view(6, 2), torch.arange(6) % 3
    return Dataset(x, y, x[:2], y[:2], 3, cross_entropy)._replace(**other)


def test_every_tensor_of_a_data_set_counts() -> None:
    whole = own()
    others = [
        own(x=whole.x + 1), own(x=whole.x.double()), own(x=whole.x.view(6, 1, 2)), own(x=whole.x.bfloat16()),
        own(y=2 - whole.y), own(test_x=whole.x[:2] + 1), own(test_y=whole.y[2:4]), own(classes=4),
        own(owner=whole.y), own(owner=whole.y + 1),
    ]  # fmt: skip
    found = [of_dataset(each) for each in (whole, *others)]
    assert len(set(found)) == len(found)
    turned = torch.arange(12.0).view(6, 2).t().contiguous().t()
    assert of_dataset(own(x=turned, content="mine")) == found[0]
    assert of_dataset(own(x=whole.x.to_sparse())) == found[0]


LOADER = """
import torch
from pathlib import Path
from baton.datasets import Dataset
from baton.datasets.base import cross_entropy

def make(clients):
    y = torch.tensor([int(word) for word in Path(__file__).with_name("labels.txt").read_text().split()])
    x = torch.eye(3)[y]
    return Dataset(x, y, x, y, 3, cross_entropy)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder of a user's own modules; `again()` is what a new process would find in it."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])

    def again() -> None:
        forget(tmp_path)
        datasets.forget()

    again()
    yield again
    again()


def test_a_loader_that_returns_something_else(tmp_path: Path, mine: Any) -> None:
    write(tmp_path, mine=LOADER)
    (tmp_path / "labels.txt").write_text("0 1 2 0 1 2")
    given = {"dataset": "mine:make", "clients": 2}
    first = Setting(**given)
    assert set(json.loads(first.to_json())["made_of"]) == {"code", "data"}
    assert owners("mine:make", "iid", 2).shape == (6,)
    (tmp_path / "labels.txt").write_text("0 1 2 0 1 2 2")
    assert Setting(**given).run_id == first.run_id  # what is loaded is what is trained on
    mine()
    second = Setting(**given)
    assert second.made_of.code == first.made_of.code
    assert second.run_id != first.run_id
    assert owners("mine:make", "iid", 2).shape == (7,)
    write(tmp_path, mine=LOADER.replace("torch.eye(3)", "1 * torch.eye(3)"))
    mine()
    third = Setting(**given)
    assert third.made_of.data == second.made_of.data
    assert third.run_id != second.run_id


@pytest.mark.usefixtures("mine")
def test_a_data_set_that_changes_while_it_is_trained_on_is_refused(tmp_path: Path) -> None:
    write(tmp_path, mine=LOADER)
    (tmp_path / "labels.txt").write_text("0 1 2")
    datasets.load("mine:make", 2)
    (tmp_path / "labels.txt").write_text("0 1 1")
    datasets._load.cache_clear()  # as if it had made room for others
    with pytest.raises(BadInput, match="'mine:make' has other samples than when this process first loaded it"):
        datasets.load("mine:make", 2)


# --- code

ALGORITHM = """
from baton.algorithms import Algorithm, State

def make():
    def round(state, order, sites):
        x = state.model
        for client in order:
            x = sites.train(x, client).x
        return State(x)
    return Algorithm(round)

def falling(round):
    return 1.0
"""


def test_an_algorithm_changed_in_one_line_is_another_run(tmp_path: Path, mine: Any) -> None:
    write(tmp_path, mine=ALGORITHM, other=ALGORITHM)
    given = {"algorithm": "mine:make", "lr_schedule": "other:falling", "rounds": 2}
    first, longer = Setting(**given), Setting(**given | {"rounds": 4})
    assert first.made_of.data == ""
    assert set(first.made_of.code) == {"mine", "other"}
    assert (first.kin, first.run_id == longer.run_id) == (longer.kin, False)
    write(tmp_path, mine=ALGORITHM.replace("in order", "in order[::-1]"))
    assert Setting(**given).run_id == first.run_id
    mine()
    second = Setting(**given)
    assert second.key == first.key
    assert (second.run_id == first.run_id, second.kin == first.kin) == (False, False)
    write(tmp_path, other=ALGORITHM.replace("1.0", "0.5"))
    mine()
    assert Setting(**given).run_id not in (first.run_id, second.run_id)
    assert Setting(**given).factor(3) == 0.5


def test_a_longer_run_does_not_go_on_from_another_codes_beginning(tmp_path: Path, mine: Any) -> None:
    write(tmp_path, mine=ALGORITHM)
    given = {"algorithm": "mine:make", "rounds": 4, "eval_every": 4, "clients": 3}
    (short,) = baton.run(Setting(**given), tmp_path / "runs", quiet=True)
    write(tmp_path, mine=ALGORITHM.replace("in order", "in order[::-1]"))
    mine()
    (other,) = baton.run(Setting(**given), tmp_path / "runs", quiet=True)
    assert other.setting.run_id != short.setting.run_id
    assert other.metrics["test_loss"][-1] != short.metrics["test_loss"][-1]
    store = baton.Store(tmp_path / "runs")
    longer = Setting(**given | {"rounds": 8})
    assert store.kin()[longer.kin] == {4: other.setting.run_id}


# --- reading


def test_reading_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, evil="open('ran', 'w')\n")
    rooms = ("dataset", "partition", "model", "algorithm", "schedule", "lr_schedule", "failures", "on_failure")
    values = {**Setting().model_dump(), **dict.fromkeys(rooms, "evil:factory:k=1")}
    made_of = {"code": {"evil": "0123"}, "data": "4567"}
    stored = json.dumps({"format": FORMAT, "made_of": made_of, **values}, sort_keys=True)
    found = Setting.from_json(stored)
    assert found.theirs
    assert found.paths == ["evil:factory"] * len(rooms)
    assert found.made_of == MadeOf("4567", {"evil": "0123"})
    assert Setting.from_json(found.to_json()).run_id == found.run_id
    assert (found.kin, found.rounds) == kin(found.to_json())
    assert (len(found.run_id), len(found.key), found.run_id == found.key) == (16, 16, False)
    assert not (tmp_path / "ran").exists()
    assert "evil" not in sys.modules
    assert not Setting.from_json(Setting().to_json()).theirs
    unknown = Setting.from_json(Setting().to_json().replace('"sequential"', '"of another version:k=1"'))
    assert not unknown.theirs


def test_the_command_line_lists_a_strangers_store(tmp_path: Path) -> None:
    write(tmp_path, evil="open('ran_evil', 'w')\n", torch="open('ran_torch', 'w')\n", safetensors="1 / 0\n")
    values = {**Setting().model_dump(), "model": "evil:factory"}
    made_of = {"code": {"evil": "0123456789abcdef"}}
    text = json.dumps({"format": FORMAT, "made_of": made_of, **values})
    folder = tmp_path / "runs" / Setting.from_json(text).run_id
    folder.mkdir(parents=True)
    (folder / "setting.json").write_text(text)
    for words in (("-m", "baton"), (Path(sys.executable).parent / "baton",)):
        assert "evil:factory" in python(*words, "list", "runs", cwd=tmp_path)
    assert not list(tmp_path.glob("ran*"))


@pytest.mark.usefixtures("data")
def test_what_is_looked_for_where_the_data_is_not() -> None:
    setting = Setting(dataset="mnist", seed=3)
    sought = setting.stored_as(MadeOf("0123456789abcdef", {"m": "00"}))
    assert sought == setting
    assert "made_of" not in vars(setting)
    assert Setting.from_json(sought.to_json()).run_id == sought.run_id != setting.key
    assert sought.stored_as(MadeOf()).run_id == setting.key
    assert pickle.loads(pickle.dumps(sought)).run_id == sought.run_id


def test_a_copy_is_a_setting_of_its_own() -> None:
    setting = Setting()
    assert setting.run_id == setting.key
    other = setting.replace(seed=2)
    assert other.run_id == Setting(seed=2).run_id != setting.run_id
    assert copy.copy(setting).run_id == setting.run_id


GOOD = json.loads(Setting().to_json())
MADE = {"data": "0123456789abcdef"}
MALFORMED: dict[str, str] = {
    "empty": "",
    "cut": '{"format": 3',
    "list": "[1]",
    "null": "null",
    "format 0": json.dumps({**GOOD, "format": 0}),
    "format of before": json.dumps({**GOOD, "format": FORMAT - 1}),
    "format to come": json.dumps({**GOOD, "format": FORMAT + 1}),
    "format true": json.dumps({**GOOD, "format": True}),
    "format 1.0": json.dumps({**GOOD, "format": 1.0}),
    "format list": json.dumps({**GOOD, "format": [1]}),
    "no format": json.dumps({k: v for k, v in GOOD.items() if k != "format"}),
    "unknown": json.dumps({**GOOD, "lrr": 1}),
    "unknown lines": json.dumps({**GOOD, "l\nr\ud800": 1}),
    "rounds word": json.dumps({**GOOD, "rounds": "3"}),
    "rounds true": json.dumps({**GOOD, "rounds": True}),
    "rounds zero": json.dumps({**GOOD, "rounds": 0}),
    "rounds huge": json.dumps(GOOD).replace('"rounds": 100', f'"rounds": {"9" * 5000}'),
    "seed huge": json.dumps({**GOOD, "seed": 10**4000}),
    "lr huge": json.dumps({**GOOD, "lr": 10**4000}),
    "lr nan": json.dumps({**GOOD, "lr": float("nan")}),
    "lr inf": json.dumps({**GOOD, "lr": float("inf")}),
    "lr null": json.dumps({**GOOD, "lr": None}),
    "more than there are": json.dumps({**GOOD, "participants": 11}),
    "dataset number": json.dumps({**GOOD, "dataset": 3}),
    "dataset surrogate": json.dumps({**GOOD, "dataset": "\ud800"}),
    "dtype": json.dumps({**GOOD, "dtype": "float16"}),
    "deep": "[" * 100_000,
    "deep and whole": "[" * 100_000 + "]" * 100_000,
    "deep value": json.dumps(GOOD).replace('"rounds": 100', '"rounds": ' + "[" * 900 + "]" * 900),
    "deeper value": json.dumps(GOOD).replace('"rounds": 100', '"rounds": ' + '{"a":' * 100_000 + "1" + "}" * 100_000),
} | {
    f"made_of {i}": json.dumps({**GOOD, "format": FORMAT, "made_of": wrong})
    for i, wrong in enumerate(
        (
            None,
            {},
            [],
            "x",
            {"data": ""},
            {"data": 3},
            {"code": {}},
            {"code": {"m": 1}},
            {"code": []},
            {"code": "mm"},
            {**MADE, "code": {}},
            {**MADE, "more": "x"},
            {"code": {"m": ["x"]}},
        )
    )
}
for _field in sorted(GOOD.keys() - {"format"}):
    MALFORMED[f"no {_field}"] = json.dumps({k: v for k, v in GOOD.items() if k != _field})


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_malformed_is_refused_in_one_line(what: str) -> None:
    with pytest.raises(BadInput) as error:
        Setting.from_json(MALFORMED[what])
    line = str(error.value)
    assert line.startswith("setting.json: ")
    assert len(line.splitlines()) == 1
    assert len(line) < 500
    kin(MALFORMED[what])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NEAR = st.dictionaries(st.sampled_from([*Setting.model_fields, "format", "made_of", "code"]), JSON, max_size=4)
LIKE = st.builds(lambda change, gone: {k: v for k, v in {**GOOD, **change}.items() if k not in gone},
                 NEAR, st.sets(st.sampled_from(sorted(GOOD)), max_size=1))  # fmt: skip


def line(text: str) -> str:
    """Why it is no setting; "" where it is one, which then stays what it is."""
    try:
        found = Setting.from_json(text)
    except BadInput as error:
        return str(error)
    assert Setting.from_json(found.to_json()).run_id == found.run_id
    return ""


@given(st.one_of(st.text(), JSON.map(json.dumps), LIKE.map(json.dumps)))
def test_whatever_lies_there_is_a_setting_or_bad_input(text: str) -> None:
    kin(text)
    assert len(line(text).splitlines()) <= 1


NAMES = st.text(min_size=1, max_size=9)


@given(st.text(max_size=16), st.dictionaries(NAMES, NAMES, max_size=3), st.integers(1, 50))
def test_what_it_is_made_of_and_back(data: str, code: dict[str, str], rounds: int) -> None:
    setting = Setting(rounds=rounds).stored_as(MadeOf(data, code))
    again = Setting.from_json(setting.to_json())
    assert (again.made_of, again.run_id, again.key) == (setting.made_of, setting.run_id, setting.key)
    assert (setting.run_id == setting.key) is (not data and not code)
    assert kin(setting.to_json()) == (again.kin, rounds)
    assert Setting(rounds=51).stored_as(MadeOf(data, code)).kin == setting.kin
    assert Setting(rounds=51).stored_as(MadeOf(data + "x", code)).kin != setting.kin


# --- building from a stored run

MODEL = """
from torch import nn

def make(shape, classes):
    return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
"""


def test_leak_imports_what_it_is_told_to_trust(
    tmp_path: Path, mine: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, mine=MODEL)
    setting = Setting(model="mine:make", rounds=1)
    baton.run(setting, tmp_path / "runs", quiet=True)

    def leak(*words: str, code: int) -> str:
        mine()
        line = ["baton", "leak", setting.run_id, "--runs", str(tmp_path / "runs"), "--samples", "20", *words]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == code
        shown = capsys.readouterr()
        return shown.out + shown.err

    line = "baton: run: its setting names mine:make, which would be imported; --trust mine:make if it is yours\n"
    assert leak(code=2) == line
    assert leak("--trust", "mine:other", code=2) == line
    assert "mine" not in sys.modules
    assert "mine:make on digits" in leak("--trust", "mine:make", code=0)
    write(tmp_path, mine=MODEL + "# changed\n")
    assert "run: it was trained with other code than what is here now" in leak("--trust", "mine:make", code=2)
