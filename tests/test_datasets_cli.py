"""`baton data` and --data-dir as a user types them, and how official files are told from others."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from baton.cli import app
from baton.datasets import find, official
from baton.datasets.check import check
from baton.errors import BadInput
from made_data import BATCHES, IDX, made, pickled, write_cifar, write_idx

pytest_plugins = ["fixtures_data"]


def test_official_and_other_pixels(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by contents: the same records are official in both forms, and a gzip file in any packing."""
    monkeypatch.setattr("baton.datasets.cifar10.RECORDS", 20)
    write_cifar(data, form="bin")
    folder = data / "cifar-10-batches-bin"
    md5 = tuple(hashlib.md5((folder / f"{b}.bin").read_bytes()).hexdigest() for b in BATCHES)
    labels = b"".join((folder / f"{b}.bin").read_bytes()[::3073] for b in BATCHES)
    monkeypatch.setattr(official, "CIFAR10_BATCHES", md5)
    monkeypatch.setattr(official, "CIFAR10_LABELS", hashlib.sha256(labels).hexdigest())
    assert check("cifar10")[:3] == ("cifar10", "official", "binary batches")
    write_cifar(data)
    assert check("cifar10")[:3] == ("cifar10", "official", "python batches")
    x, y = made(20, (3, 32, 32), 2)
    batch = data / "cifar-10-batches-py" / BATCHES[2]
    batch.write_bytes(pickled(x ^ 1, y.tolist()))
    assert check("cifar10").state == "other pixels"
    batch.write_bytes(pickled(x, y[::-1].tolist()))
    assert check("cifar10").state == "other data"


def test_the_command_line(data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def baton(*words: str) -> str:
        done = CliRunner().invoke(app, ["data", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    write_idx(data / "mnist")
    (data / "mnist" / f"{IDX[1]}.gz").unlink()
    write_cifar(data)
    monkeypatch.setattr(find, "LAYOUTS", {name: find.LAYOUTS[name] for name in ("mnist", "cifar10", "cinic10")})
    listed = json.loads(baton("list", "--json"))
    assert listed["looked in"] == [str(data), str(find.cache() / "data")]
    rows = {row["name"]: row for row in listed["datasets"]}
    assert rows["mnist"]["missing"] == [f"{IDX[1]}.gz"]
    assert rows["cifar10"] == {
        "name": "cifar10",
        "path": str(data / "cifar-10-batches-py"),
        "format": "python batches",
        "complete": True,
        "missing": [],
    }
    assert rows["cinic10"]["path"] is None
    text = baton("list")
    assert f"lacks {IDX[1]}.gz" in text
    assert "'baton data get cinic10'" in text
    assert "other data; 100 training and 20 test images" in baton("check", "cifar10")
    assert json.loads(baton("check", "cifar10", "--json"))["state"] == "other data"
    assert str(data / "cifar-10-batches-py") in baton("get", "cifar10")
    with pytest.raises(BadInput, match="did you mean 'mnist'"):
        baton("get", "mnits")
    assert capsys.readouterr().out == ""


def test_broken_is_exit_code_2_and_one_line(data: Path) -> None:
    write_idx(data / "mnist")
    (data / "mnist" / f"{IDX[0]}.gz").write_bytes(b"\0\0\x08\x03")
    for words in (["data", "check", "mnist"], ["run", "-d", "mnist", "--data-dir", str(data)]):
        done = subprocess.run([sys.executable, "-m", "baton", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert "ends within its header" in done.stderr


def test_a_run_takes_its_data_from_data_dir(data: Path, tmp_path: Path) -> None:
    write_idx(tmp_path / "mine" / "mnist", 100)
    words = ["run", "-d", "mnist", "-M", "5", "-S", "2", "-R", "2", "--json", "--runs", str(tmp_path / "runs")]
    for given, code in ((["--data-dir", "mine"], 0), ([], 2)):
        done = subprocess.run(
            [sys.executable, "-m", "baton", *words, *given, "-K", str(2 + code)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stderr
    assert not list(data.iterdir())


def test_getting_without_a_network_is_one_line(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real mirrors, behind a proxy that is not there."""
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "baton", "data", "get", "cifar10"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"into {data / 'cifar-10-batches-py'}" in done.stderr
