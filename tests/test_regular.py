"""Pipes, devices and folders where a user's file is read: one line that names it, and nobody waits."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from baton import datasets, regular, study
from baton.datasets import cifar10, fetch
from baton.datasets.official import Remote
from baton.errors import BadInput
from baton.setting import Setting
from made_data import BATCHES, IDX, write_all, write_cifar

pytest_plugins = ["fixtures_data"]

KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """A test that waits for a pipe fails."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    KINDS[kind](path)
    for begin in ("", "study"):
        with pytest.raises(BadInput) as error:
            regular.read(path, field=begin)
        head = f"{begin}: " if begin else ""
        assert str(error.value) == f"{head}{path}: cannot be read: it is {kind}, not a regular file"


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"12345")
    assert regular.read(path) == regular.read(path, 5) == b"12345"
    with pytest.raises(BadInput, match=r"^x: .*it: has 5 bytes; no more than 4 is right$"):
        regular.read(path, 4, field="x")
    with pytest.raises(BadInput, match=r"^/proc/cpuinfo: has more than 4 bytes$"):  # of no size, as its folder says
        regular.read(Path("/proc/cpuinfo"), 4)
    (tmp_path / "link").symlink_to(path)
    with regular.opened(tmp_path / "link") as file:
        assert file.read(2) == b"12"


def test_what_the_system_refuses_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        regular.read(tmp_path / "none")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="No such device"):
            regular.read(tmp_path / "s")
    with pytest.raises(BadInput, match=r"^x: 'a\\x00b' is no name of a file"):
        regular.read(Path("a\0b"), field="x")


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for make in KINDS.values():
        make(tmp_path / "it")
        with pytest.raises(BadInput):
            regular.read(tmp_path / "it")
        (tmp_path / "it").rmdir() if (tmp_path / "it").is_dir() else (tmp_path / "it").unlink()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("mnist", f"mnist/{IDX[0]}.gz"),
        ("fashion_mnist", f"fashion-mnist/{IDX[1]}.gz"),
        ("cifar10", f"cifar-10-batches-py/{BATCHES[2]}"),
        ("cinic10", "cinic-10/train/airplane/00000.png"),
    ],
)
def test_data_sets(data: Path, name: str, place: str, kind: str) -> None:
    write_all(data)
    (data / place).unlink()
    KINDS[kind](data / place)
    with pytest.raises(BadInput) as error:
        datasets.load(name, 5)
    assert str(error.value) == f"dataset: {data / place}: cannot be read: it is {kind}, not a regular file"


@pytest.mark.parametrize("kind", KINDS)
def test_binary_batches(data: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "RECORDS", 20)
    write_cifar(data, 20, "bin")
    place = data / "cifar-10-batches-bin" / "test_batch.bin"
    place.unlink()
    KINDS[kind](place)
    with pytest.raises(BadInput, match=f"test_batch.bin: cannot be read: it is {kind}"):
        datasets.load("cifar10", 5)


def test_a_huge_image_file_is_not_read(data: Path) -> None:
    write_all(data)
    with open(data / "cinic-10/train/airplane/00000.png", "r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match=r"00000\.png: has 1,099,511,627,776 bytes; no more than"):
        datasets.load("cinic10", 5)


@pytest.mark.parametrize("kind", KINDS)
def test_partitions(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "map.json")
    with pytest.raises(BadInput, match=rf"^partition: .*map\.json: cannot be read: it is {kind}"):
        Setting(partition=f"file:{tmp_path / 'map.json'}")


def test_a_partition_that_is_too_large(tmp_path: Path) -> None:
    with open(tmp_path / "map.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match=r"^partition: .*has 1,099,511,627,776 bytes"):
        Setting(partition=f"file:{tmp_path / 'map.json'}")


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_studies(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "s.toml")
    with pytest.raises(BadInput, match=rf"s\.toml: cannot be read: it is {kind}"):
        study.read(tmp_path / "s.toml")
    (tmp_path / "other.toml").write_text('like = "s"')
    with pytest.raises(BadInput, match=rf"s\.toml: cannot be read: it is {kind}"):
        study.read(tmp_path / "other.toml")


def test_a_download_is_not_written_into_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.gz.part")
    with pytest.raises(BadInput, match=r"^data: .*a\.gz\.part: is no regular file"):
        fetch.fetch(Remote("a.gz", "sha256:00", ("https://127.0.0.1:1/",)), tmp_path)
