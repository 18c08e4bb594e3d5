"""Decoded data sets: decoded once, mapped afterwards, made anew when damaged or when the files change."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from baton import datasets
from baton.datasets import decoded, find
from made_data import BATCHES, write_cifar, write_folders, write_idx

pytest_plugins = ["fixtures_data"]


def load(name: str) -> datasets.Dataset:
    loaded: datasets.Dataset = datasets.LOADERS[name](500)
    return loaded


def copies(name: str = "cifar10") -> list[Path]:
    return sorted((find.cache() / "decoded").glob(f"{name}-*"))


def same(a: datasets.Dataset, b: datasets.Dataset) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a[:4], b[:4], strict=True))


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one at each decoding."""
    seen: list[str] = []
    for module in (datasets.cifar10, datasets.cinic10):
        whole = module.decode

        def counted(found: find.Found, whole=whole) -> decoded.Arrays:  # type: ignore[no-untyped-def]
            seen.append(found.name)
            return whole(found)

        monkeypatch.setattr(module, "decode", counted)
    return seen


def test_the_second_start_decodes_nothing(data: Path, decodings: list[str]) -> None:
    write_cifar(data)
    write_folders(data / "cinic-10")
    for name in ("cifar10", "cinic10"):
        first, second = load(name), load(name)
        assert same(first, second)
        assert decodings.count(name) == 1
        assert [p.name for p in sorted(copies(name)[0].iterdir())] == [
            *("checksums.json", "test_x.npy", "test_y.npy", "x.npy", "y.npy")
        ]


def test_arrays_are_mapped_not_copied(data: Path) -> None:
    write_idx(data / "mnist")
    load("mnist")
    (folder,) = copies("mnist")
    kept = decoded._read(folder)
    assert kept is not None
    assert isinstance(kept.arrays.x, np.memmap)
    x = torch.from_numpy(kept.arrays.x)
    assert x.data_ptr() == kept.arrays.x.ctypes.data
    x += 1  # our copy of the page, never the file
    again = decoded._read(folder)
    assert again is not None
    assert not np.array_equal(again.arrays.x, kept.arrays.x)
    assert again.content == kept.content


def test_changed_files_are_decoded_again(data: Path, decodings: list[str]) -> None:
    write_cifar(data)
    load("cifar10")
    write_cifar(data, 10)
    assert load("cifar10").x.shape[0] == 50
    os.utime(data / "cifar-10-batches-py" / BATCHES[5], ns=(1, 1))
    load("cifar10")
    assert len(decodings) == 3
    assert len(copies()) == 3


@pytest.mark.parametrize("damage", ["cut", "bit", "gone", "pickle", "no checksums", "odd checksums", "empty"])
def test_a_damaged_copy_is_made_anew(data: Path, decodings: list[str], damage: str) -> None:
    write_cifar(data)
    first = load("cifar10")
    kept = [t.clone() for t in first[:4]]
    path = copies()[0] / "x.npy"
    whole = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(whole[:-1])
    elif damage == "bit":
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif damage == "pickle":
        np.save(path, np.array([{}, None]), allow_pickle=True)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage != "gone":
        path.write_bytes(whole)
        (copies()[0] / "checksums.json").write_text("" if damage == "no checksums" else '{"x": 1}')
    again = load("cifar10")
    assert all(torch.equal(a, b) for a, b in zip(kept, again[:4], strict=True))
    assert len(decodings) == 2
    load("cifar10")
    assert len(decodings) == 2
    assert len(list((find.cache() / "decoded").iterdir())) == 1


def test_without_a_cache_it_is_decoded_each_time(
    data: Path, tmp_path: Path, decodings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    write_cifar(data)
    assert same(load("cifar10"), load("cifar10"))
    assert len(decodings) == 2


def test_a_full_disk_leaves_nothing_behind(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    write_cifar(data)
    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        assert len(load("cifar10").y) == 100
    assert list((find.cache() / "decoded").iterdir()) == []
    load("cifar10")
    assert len(copies()) == 1


def test_a_failed_decoding_keeps_nothing(data: Path) -> None:
    write_cifar(data)
    (data / "cifar-10-batches-py" / BATCHES[0]).write_bytes(b"broken")
    with pytest.raises(ValueError, match="no official CIFAR batch"):
        load("cifar10")
    assert copies() == []


def test_old_copies_are_removed(data: Path) -> None:
    write_cifar(data)
    path = data / "cifar-10-batches-py" / BATCHES[0]
    stale = find.cache() / "decoded" / ".cifar10-half-written"
    stale.mkdir(parents=True)
    os.utime(stale, (1, 1))
    made = []
    for k in range(decoded.KEPT + 2):
        os.utime(path, ns=(k, k))
        load("cifar10")
        made += [p for p in copies() if p not in made]
        os.utime(made[-1], (1000 + k, 1000 + k))
    assert copies() == sorted(made[-decoded.KEPT :])
    assert not stale.exists()
    write_idx(data / "mnist")
    load("mnist")
    assert len(copies()) == decoded.KEPT


def test_two_places_have_two_copies(data: Path, tmp_path: Path, decodings: list[str]) -> None:
    write_cifar(data)
    load("cifar10")
    write_cifar(tmp_path / "other")
    os.environ["BATON_DATA"] = str(tmp_path / "other")  # the fixture restores it
    load("cifar10")
    assert len(decodings) == 2
    os.environ["BATON_DATA"] = str(data)
    load("cifar10")
    assert len(decodings) == 2
