"""Arrays, functions and modules passed in Python, NumPy's files and folders of pictures."""

import subprocess
import sys
import types
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import baton
from baton import datasets
from baton.algorithms import ALGORITHMS
from baton.datasets.numpy_files import npy, npz
from baton.datasets.pictures import load as images
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Store
from contracts.examples import finish, series
from user_modules import by_label, reversed_sequential, tiny

pytest_plugins = ["fixtures_data"]
pytestmark = pytest.mark.usefixtures("data")

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(120, 4))
Y = (X[:, 0] > 0).astype(np.int64)
SITES = np.array(["rome", "oslo", "bern"])[np.arange(120) % 3]


class Frame:
    """What there is of a pandas frame or series to us."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def to_numpy(self) -> np.ndarray:
        return self.values


def test_arrays_of_any_kind_are_one_data_set() -> None:
    first = baton.Data(X, Y, sites=SITES)
    for given in (
        (torch.from_numpy(X), torch.from_numpy(Y), SITES),
        (Frame(X), Frame(Y), Frame(SITES.astype(object))),
        (X.tolist(), Y.tolist(), SITES.tolist()),
    ):
        assert baton.Data(*given).spec == first.spec
    assert first.dataset.names == ("bern", "oslo", "rome")
    assert "96 training and 24 test samples of (4,), 3 sites; 2 classes" in repr(first)
    others = [
        baton.Data(X, Y, sites=SITES, split_seed=1),
        baton.Data(X, Y),
        baton.Data(X, Y, sites=SITES, weight=1 + Y),
        baton.Data(X, Y, sites=np.char.upper(SITES)),
        baton.Data(X, Y, sites=SITES, test=(X[:9], Y[:9])),
        baton.Data(X, Y, sites=SITES, test=(X[:9], Y[:9], SITES[:9])),
    ]
    assert len({first.spec, *(each.spec for each in others)}) == 7


def test_a_run_on_arrays_is_stored_and_read_where_they_are_not(tmp_path: Path) -> None:
    data = baton.Data(X, Y, sites=SITES)
    setting = Setting(dataset=data, rounds=4, eval_every=4)  # type: ignore[arg-type]
    assert (setting.dataset, setting.clients, setting.partition) == (data.spec, 3, "natural")
    (run,) = baton.run(setting, tmp_path / "runs", quiet=True)
    assert run.setting.made_of.data == data.dataset.content
    assert Store(tmp_path / "runs").complete(setting.run_id)
    code = f"""
import baton, sys
(run,) = [baton.Store("runs").read({setting.run_id!r})]
assert run.setting.dataset == {data.spec!r}, run.setting
assert "baton.cli" not in sys.modules
try:
    baton.Setting(dataset={data.spec!r})
except baton.BadInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 1
    assert "baton.Data" in done.stdout
    for words in (["list", "runs"], ["show", setting.run_id]):
        command = [sys.executable, "-m", "baton", *words, "--runs", "runs"]
        shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert data.spec in shown.stdout


def test_labels_and_tests_are_taken_as_they_are() -> None:
    said = np.array(["no", "yes"])[Y]
    words = baton.Data(X, said, test=(X[:10], said[:10]), scale="none").dataset
    assert words.classes == 2
    assert torch.equal(words.y, torch.from_numpy(Y))
    assert torch.equal(words.test_x, torch.from_numpy(X[:10]))
    many = baton.Data(X, np.arange(120) % 40).dataset  # whole numbers are classes here, however many
    assert many.classes == 40
    number = baton.Data(X, X[:, 0] * 3 + 100, scale="none").dataset
    assert number.classes == 0
    assert number.y.mean() > 90
    scaled = baton.Data(X, X[:, 0] * 3 + 100).dataset
    assert abs(float(scaled.y.mean())) < 1e-5
    assert torch.allclose(scaled.x.mean(0), torch.zeros(4, dtype=scaled.x.dtype), atol=1e-9)
    _, at = finish([Setting(dataset=baton.Data(X, X[:, 0]), rounds=20, lr=0.05, eval_every=20)])  # type: ignore[arg-type]
    assert series(at, "test_loss")[20] < 0.05


PICTURES = DRAW.integers(0, 256, (30, 8, 6), dtype=np.uint8)


def test_bytes_are_images() -> None:
    y = np.arange(30) % 3
    grey = baton.Data(PICTURES, y).dataset
    assert grey.x.shape[1:] == (1, 8, 6)
    assert grey.x.dtype == torch.uint8
    ready = datasets.prepared(grey, grey.x, torch.float64)
    assert abs(float(ready.mean())) < 1e-6
    assert float(ready.std(correction=0)) == pytest.approx(1, abs=1e-6)
    last = np.stack([PICTURES] * 3, -1)
    assert baton.Data(last, y).spec == baton.Data(last.transpose(0, 3, 1, 2), y).spec


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"x": X[:, 0]}, "samples, features"),
        ({"y": Y[:5]}, "one for each of 120"),
        ({"sites": SITES[:5]}, "one for each of 120"),
        ({"x": np.where(X > 2, np.nan, X)}, "NaN or infinite"),
        ({"y": np.where(Y, np.nan, 0.0)}, "y has nan"),
        ({"x": np.array([["a", "b"]] * 120)}, "no number"),
        ({"y": np.zeros(120, int)}, "two classes or more"),
        ({"test": 1.5}, "test=1.5"),
        ({"test": "half"}, "a share such as 0.2"),
        ({"test": (X[:4, :2], Y[:4])}, "the same shape"),
        ({"test": (X[:4], Y[:4], SITES[:4])}, "training samples have none"),
        ({"sites": SITES, "test": (X[:4], Y[:4], ["rome", "oslo", "bern", "Genua"])}, "'Genua' has test samples"),
        ({"weight": -X[:, 0]}, "0 or more"),
        ({"task": "guess"}, "classify or regress"),
        ({"split_seed": -3}, "split_seed=-3"),
        ({"x": []}, "at least one"),
    ],
)
def test_mistakes_end_in_one_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says) as error:
        baton.Data(**{"x": X, "y": Y} | given)
    assert "\n" not in str(error.value)


# Functions and modules


def made(width: int) -> Any:
    def inner(shape: tuple[int, ...], classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], width), nn.ReLU(), nn.Linear(width, classes))

    return inner


def test_functions_are_named_by_where_they_are_or_by_what_they_are() -> None:
    def model(value: Any) -> str:
        return Setting(model=value).model

    assert model(tiny) == "user_modules:tiny"
    assert Setting(algorithm=reversed_sequential).algorithm == "user_modules:reversed_sequential"  # type: ignore[arg-type]
    assert Setting(partition=by_label).partition == "user_modules:by_label"  # type: ignore[arg-type]
    assert Setting(algorithm=ALGORITHMS["parallel"]).algorithm == "parallel"  # type: ignore[arg-type]
    assert model(made(3)) == model(made(3)) != model(made(4))
    assert model(partial(made(3))) == model(partial(made(3))) != model(partial(made(4)))
    layer = nn.Linear(64, 10)
    first = model(layer)
    assert first == model(layer)
    with torch.no_grad():
        layer.bias += 1
    assert model(layer) != first
    with pytest.raises(BadInput, match="model: 3"):
        Setting(model=3)  # type: ignore[arg-type]


def test_what_is_passed_is_what_trains() -> None:
    layer = nn.Linear(64, 10)
    program, at = finish([Setting(model=layer, rounds=1, lr=1e-12)])  # type: ignore[arg-type]
    torch.testing.assert_close(at.state.model["weight"][0], layer.weight.detach(), rtol=1e-6, atol=1e-6)
    assert at.state.model["weight"][0].data_ptr() != layer.weight.data_ptr()
    program, _ = finish([Setting(model=made(5), rounds=1)])  # type: ignore[arg-type]
    assert program.sizes["0.weight"] == (5, 64)


def test_a_notebooks_function(tmp_path: Path) -> None:
    """One that is defined anew is another, and the first one still trains what it said."""
    notebook = types.ModuleType("notebook_of_mine")
    sys.modules["notebook_of_mine"] = notebook
    try:
        settings, widths = [], (3, 4)
        for width in widths:
            cell = f"""
from torch import nn
def model(shape, classes):
    return nn.Sequential(nn.Linear(shape[0], {width}), nn.ReLU(), nn.Linear({width}, classes))
"""
            exec(cell, notebook.__dict__)
            settings.append(Setting(model=notebook.model, rounds=1))
        assert len({s.model for s in settings}) == len({s.run_id for s in settings}) == 2
        for setting, width in zip(settings, widths, strict=True):
            assert finish([setting])[0].sizes["0.weight"][0] == width
        (run,) = baton.run(settings[0], tmp_path / "runs", quiet=True)
        assert run.setting.model == settings[0].model
    finally:
        del sys.modules["notebook_of_mine"]
    with pytest.raises(BadInput, match="a function that a Python program passed"):
        Setting(model="given:model_0123456789abcdef")


# Files


def test_npz_and_npy_are_the_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=Y, owner=SITES)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    np.save(tmp_path / "s.npy", SITES)
    given = baton.Data(X, Y, sites=SITES).dataset
    assert npz(0, path=str(tmp_path / "a.npz")).content == given.content
    files = {"path": str(tmp_path / "x.npy"), "label": str(tmp_path / "y.npy")}
    assert npy(0, **files, site=str(tmp_path / "s.npy")).content == given.content  # type: ignore[arg-type]
    np.savez(tmp_path / "b.npz", x=X[20:], y=Y[20:], test_x=X[:20], test_y=Y[:20])
    both = npz(0, path=str(tmp_path / "b.npz"), scale="none")
    assert torch.equal(both.test_x, torch.from_numpy(X[:20]))
    setting = Setting(dataset=f"npz:{tmp_path}/a.npz,test=0.3", rounds=2)
    assert (setting.clients, setting.partition) == (3, "natural")
    assert series(finish([setting])[1], "test_accuracy")


def test_bad_numpy_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "no_y.npz", x=X)
    np.savez(tmp_path / "odd.npz", x=X, y=Y, ownr=SITES)
    np.save(tmp_path / "pickled.npy", np.array([{}, None]), allow_pickle=True)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "text.npz").write_text("no array")
    for load, name, says in (
        (npz, "no_y.npz", "no array 'y'"),
        (npz, "odd.npz", "did you mean 'owner'"),
        (npz, "x.npy", "holds one array"),
        (npz, "text.npz", "no readable NumPy file"),
        (npz, "none.npz", "no file"),
        (npz, ".", "a folder"),
        (partial(npy, label="y.npy"), "pickled.npy", "nothing in it was run"),
        (npy, "x.npy", "label=PATH"),
    ):
        with pytest.raises(BadInput, match=says):
            load(0, path=str(tmp_path / name))


def draw_into(folder: Path, count: int = 6, mode: str = "RGB", side: int = 8) -> None:
    folder.mkdir(parents=True)
    for i in range(count):
        pixels = DRAW.integers(0, 256, (side, side, 3) if mode == "RGB" else (side, side), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")


def test_folders_of_images(tmp_path: Path) -> None:
    for site in ("rome", "oslo"):
        for kind in ("cat", "dog"):
            draw_into(tmp_path / "sited" / site / kind)
    for kind in ("cat", "dog"):
        draw_into(tmp_path / "grey" / kind, mode="L")
    sited = images(0, path=str(tmp_path / "sited"))
    assert sited.names == ("oslo", "rome")
    assert sited.x.shape[1:] == (3, 8, 8)
    assert images(0, path=str(tmp_path / "grey")).x.shape[1:] == (1, 8, 8)
    assert images(0, path=str(tmp_path / "grey"), size=4).x.shape[1:] == (1, 4, 4)
    assert datasets.sites(f"images:{tmp_path}/sited") == 2
    first = np.asarray(Image.open(tmp_path / "sited" / "oslo" / "cat" / "0.png")).transpose(2, 0, 1)
    held = [*sited.x.numpy(), *sited.test_x.numpy()]
    assert any(np.array_equal(first, image) for image in held)
    draw_into(tmp_path / "grey" / "cow", side=9)
    with pytest.raises(BadInput, match="size=8 scales all"):
        images(0, path=str(tmp_path / "grey"))
    (tmp_path / "grey" / "cow" / "0.png").write_text("no image")
    for path, says in (("grey", "no readable"), ("none", "is not there"), ("sited/rome/cat", "no PNG or JPEG")):
        with pytest.raises(BadInput, match=says):
            images(0, path=str(tmp_path / path))
