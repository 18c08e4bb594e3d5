"""Data are scaled alike wherever they come from, and refused in one line where no model could use them."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import baton
from baton import cli

pytestmark = pytest.mark.trust

TRAINED: dict[str, Any] = {"clients": 4, "rounds": 20, "lr": 0.1, "partition": "iid"}


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail what takes longer, which would take minutes."""

    def late(*_: object) -> None:
        pytest.fail(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def rows(count: int = 400) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return three features, one of mean 5,000 and deviation 1,000, and two classes."""
    draw = np.random.default_rng(0)
    y = np.arange(count) % 2
    x = draw.normal(size=(count, 3)) + y[:, None]
    x[:, 1] = 5000 + 1000 * x[:, 1]
    return x, y


def table(folder: Path, x: Any, y: Any) -> str:
    lines = [",".join(map(repr, [*row, label])) for row, label in zip(x.tolist(), y.tolist(), strict=True)]
    (folder / "t.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    return f"csv:{folder / 't.csv'},label=label"


def test_arrays_give_what_the_same_table_gives(tmp_path: Path) -> None:
    x, y = rows()
    sets = baton.Data(x, y), table(tmp_path, x, y)
    runs = baton.run([baton.Setting(dataset=d, **TRAINED) for d in sets], tmp_path, quiet=True)
    losses = [run.metrics["test_loss"][-1] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] < 1


def test_a_number_to_tell_is_scaled_as_a_tables(tmp_path: Path) -> None:
    x, _ = rows()
    y = x[:, 1] + 1000 * x[:, 0] ** 2
    sets = baton.Data(x, y), table(tmp_path, x, y)
    runs = baton.run([baton.Setting(dataset=d, **TRAINED) for d in sets], tmp_path, quiet=True)
    losses = [run.metrics["test_loss"][-1] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("cells", ['"{},5"', "{},5"])
def test_decimal_commas_are_refused(cells: str, tmp_path: Path) -> None:
    separator = "," if '"' in cells else ";"
    lines = [separator.join([cells.format(i), cells.format(-i), str(i % 2)]) for i in range(100)]
    (tmp_path / "de.csv").write_text("\n".join([separator.join("abl"), *lines]) + "\n")
    with pytest.raises(baton.BadInput, match="decimal comma") as error:
        baton.run(baton.Setting(dataset=f"csv:{tmp_path / 'de.csv'},label=l", **TRAINED), tmp_path / "r", quiet=True)
    assert "'a'" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_numbers_in_arrays_that_float32_does_not_hold_are_refused() -> None:
    x, y = rows()
    x[7, 2] = 1e300
    with pytest.raises(baton.BadInput, match=r"1e\+300 in row 7, column 2"):
        baton.Data(x, y)


def test_labels_that_float32_does_not_hold_are_refused() -> None:
    x, y = rows()
    with pytest.raises(baton.BadInput, match=r"y: got 1e\+300 in row 7"):
        baton.Data(x, np.where(np.arange(len(y)) == 7, 1e300, y + 0.5))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_in_tables_that_float32_does_not_hold_are_refused(tmp_path: Path) -> None:
    x, y = rows()
    x[7, 0] = 1e308
    with pytest.raises(baton.BadInput, match=r"column 'a': got 1e\+308"):
        baton.run(baton.Setting(dataset=table(tmp_path, x, y), **TRAINED), tmp_path / "r", quiet=True)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("kind", ["complex", "torch complex", "complex y", "masked x", "masked y"])
def test_what_is_no_real_number_is_refused(kind: str) -> None:
    x, y = rows()
    given: tuple[Any, Any] = {
        "complex": (x + 1j, y),
        "torch complex": (torch.tensor(x) + 1j, y),
        "complex y": (x, y + 1j),
        "masked x": (np.ma.masked_greater(x, 6000), y),
        "masked y": (x, np.ma.masked_equal(y, 1)),
    }[kind]
    with pytest.raises(baton.BadInput, match="complex" if "complex" in kind else "masked"):
        baton.Data(*given)


def test_a_wrong_number_of_clients_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "-d", "breast_cancer", "-R", "2", "-M", "1000000", "--runs", str(tmp_path), "--quiet"]
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    with at_most(8), pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert "clients: 1000000" in capsys.readouterr().err


def test_many_sites_are_looked_at_once_and_not_one_by_one() -> None:
    sites = np.arange(250_000)
    x, y = np.zeros((500_000, 1), np.float32), np.tile([0, 1], 250_000)
    with at_most(8):
        data = baton.Data(x, y, np.repeat(sites, 2), test=(x[::2], y[::2], sites))
    assert not [note for note in data.dataset.notes if "one class only" in note]
