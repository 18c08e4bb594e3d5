"""Reading data sets from files: the official forms, and every kind of broken file as one clear line."""

import gzip
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from baton import datasets
from baton.datasets import cifar10, cinic10, find, idx
from baton.errors import BadInput
from made_data import BATCHES, IDX, NAMES, idx_bytes, made, write_all, write_cifar, write_folders, write_idx

pytest_plugins = ["fixtures_data"]


IMAGES = [name for name in find.LAYOUTS if name != "heart"]


def load(name: str) -> datasets.Dataset:
    """Past the cache in memory."""
    loaded: datasets.Dataset = datasets.LOADERS[name](500)
    return loaded


def refused(name: str) -> str:
    with pytest.raises(BadInput) as error:
        load(name)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith("dataset: ")
    return line


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("name", "folder"), [("mnist", "mnist"), ("fashion_mnist", "fashion-mnist")])
def test_idx_files_gzipped_or_not(data: Path, name: str, folder: str, packed: bool) -> None:
    write_idx(data / folder, 40, 20, packed)
    found = load(name)
    x, y = made(40, (28, 28), 1)
    assert found.x.dtype == torch.uint8
    assert np.array_equal(found.x.numpy(), x[:, None])
    assert np.array_equal(found.y.numpy(), y)
    assert found.test_x.shape == (20, 1, 28, 28)
    assert found.classes == 10
    assert found.augment is None


def test_gzip_is_told_by_its_bytes_not_by_its_name(data: Path) -> None:
    write_idx(data / "mnist")
    for name in IDX:
        path = data / "mnist" / f"{name}.gz"
        path.write_bytes(gzip.decompress(path.read_bytes()))
    assert len(load("mnist").y) == 40


def broken_idx() -> dict[str, tuple[int, Callable[[bytes], bytes], str]]:
    """what is wrong: (which of the four files, how, what the line says)."""
    x = 0
    labels = 1
    return {
        "truncated": (x, lambda b: b[:-1], "holds only 31,359 bytes of data; its header says 40 x 28 x 28 = 31,360"),
        "too long": (x, lambda b: b + b"\0", "holds more bytes of data"),
        "within its header": (x, lambda b: b[:10], "ends within its header"),
        "empty": (x, lambda _: b"", "no IDX file"),
        "another kind of file": (x, lambda _: b"\x89PNG\r\n\x1a\n" * 9, "no IDX file"),
        "signed bytes": (x, lambda b: b[:2] + b"\x09" + b[3:], "type is 0x09; 0x08, unsigned bytes, is right"),
        "labels for images": (x, lambda _: idx_bytes(made(40, (1,))[1]), "has 1 dimensions; 3 is right"),
        "another size": (x, lambda _: idx_bytes(np.zeros((40, 32, 32), np.uint8)), "32 x 32; 28 x 28 is right"),
        "no images": (x, lambda _: idx_bytes(np.zeros((0, 28, 28), np.uint8)), "0 items"),
        "a vast header": (x, lambda _: struct.pack(">4B3I", 0, 0, 8, 3, 2**32 - 1, 28, 28), "4,294,967,295 items"),
        "a label of 10": (labels, lambda b: b[:20] + b"\x0a" + b[21:], "label 10 of item 12; 0 to 9 is right"),
        "fewer labels": (labels, lambda _: idx_bytes(made(39, (1,))[1]), "holds 39 labels; its images are 40"),
    }


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("fault", broken_idx())
def test_a_broken_idx_file_is_named(data: Path, fault: str, packed: bool) -> None:
    which, spoil, says = broken_idx()[fault]
    write_idx(data / "mnist", packed=False)
    path = data / "mnist" / IDX[which]
    spoiled = spoil(path.read_bytes())
    if packed:
        path.unlink()
        path = path.with_name(f"{path.name}.gz")
        path.write_bytes(gzip.compress(spoiled))
    else:
        path.write_bytes(spoiled)
    line = refused("mnist")
    assert str(path) in line
    assert says in line


def test_a_gzip_file_cut_or_changed(data: Path) -> None:
    write_idx(data / "mnist")
    path = data / "mnist" / f"{IDX[0]}.gz"
    whole = path.read_bytes()
    for spoiled in (whole[:-100], whole[:-8] + b"\0" * 8, whole[:200] + b"\xff" * 50 + whole[250:]):
        path.write_bytes(spoiled)
        line = refused("mnist")
        assert str(path) in line
        assert "cannot be read" in line


def test_a_file_that_unpacks_without_end_is_not_unpacked(data: Path) -> None:
    write_idx(data / "mnist")
    path = data / "mnist" / f"{IDX[1]}.gz"
    path.write_bytes(gzip.compress(struct.pack(">4BI", 0, 0, 8, 1, 40) + b"\0" * (1 << 24)))
    assert "holds more bytes" in refused("mnist")


def test_cifar_python_batches_in_order(data: Path) -> None:
    write_cifar(data)
    found = load("cifar10")
    assert found.x.shape == (100, 3, 32, 32)
    for k in range(5):
        x, y = made(20, (3, 32, 32), k)
        assert np.array_equal(found.x[20 * k : 20 * k + 20].numpy(), x)
        assert np.array_equal(found.y[20 * k : 20 * k + 20].numpy(), y)
    assert np.array_equal(found.test_x.numpy(), made(20, (3, 32, 32), 5)[0])
    assert found.augment is not None


def test_cifar_binary_batches_hold_the_same(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar10, "RECORDS", 20)
    write_cifar(data)
    python = load("cifar10")
    shutil.rmtree(data / "cifar-10-batches-py")
    write_cifar(data, form="bin")
    binary = load("cifar10")
    assert all(torch.equal(a, b) for a, b in zip(python[:4], binary[:4], strict=True))


def test_a_binary_batch_has_one_size(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cifar(data, form="bin")
    assert "has 61,460 bytes; 30,730,000 is right" in refused("cifar10")
    monkeypatch.setattr(cifar10, "RECORDS", 20)
    path = data / "cifar-10-batches-bin" / "data_batch_3.bin"
    whole = path.read_bytes()
    for spoiled in (whole[:-1], whole + b"\0", b""):
        path.write_bytes(spoiled)
        assert str(path) in refused("cifar10")
    path.write_bytes(whole[: 3073 * 4] + b"\x0a" + whole[3073 * 4 + 1 :])
    assert "label 10 of item 4; 0 to 9 is right" in refused("cifar10")


@pytest.mark.parametrize(("ending", "folder"), [("png", "cinic-10"), ("PNG", "CINIC-10"), ("jpeg", "cinic-10")])
def test_image_folders(data: Path, ending: str, folder: str) -> None:
    write_folders(data / folder, 30, 10, ending)
    (data / folder / "train" / NAMES[0] / "notes.txt").write_text("no image")
    (data / folder / "valid").mkdir()
    found = load("cinic10")
    assert found.x.shape == (30, 3, 32, 32)
    assert found.y.tolist() == [label for label in range(10) for _ in range(3)]  # classes in order, then names
    assert found.augment is None
    if ending.lower() == "png":
        x, y = made(30, (3, 32, 32), 30)
        order = np.argsort(y, kind="stable")
        assert np.array_equal(found.x.numpy(), x[order])
        assert np.array_equal(found.test_x.numpy(), made(10, (3, 32, 32), 10)[0])


def test_grey_images_and_palettes_become_colours(data: Path) -> None:
    write_folders(data / "cinic-10")
    grey = np.arange(1024, dtype=np.uint8).reshape(32, 32)
    place = data / "cinic-10" / "train" / NAMES[0]
    for path in place.iterdir():
        path.unlink()
    Image.fromarray(grey).save(place / "0.png")
    Image.fromarray(np.stack([grey] * 3, 2)).quantize(8).save(place / "1.png", transparency=b"\0\1")
    found = load("cinic10")
    assert np.array_equal(found.x[0].numpy(), np.stack([grey] * 3))


def spoil_folders(root: Path, fault: str) -> tuple[Path, str]:
    """Break an image folder; which path the line names, and what it says."""
    train = root / "train"
    image = sorted((train / NAMES[3]).iterdir())[0]
    if fault == "wrong size":
        Image.new("RGB", (32, 33)).save(image)
        return image, "is 32 x 33; 32 x 32 is right"
    if fault == "huge":
        Image.new("1", (30_000, 10_000)).save(image)
        return image, ""
    if fault == "no image":
        image.write_bytes(b"GIF89a, or so it says")
        return image, "no readable PNG or JPEG"
    if fault == "another format":
        Image.new("RGB", (32, 32)).save(image, format="BMP")
        return image, "no readable PNG or JPEG"
    if fault == "truncated":
        image.write_bytes(image.read_bytes()[:-600])
        return image, "no readable PNG or JPEG"
    if fault == "missing class":
        shutil.rmtree(train / NAMES[9])
        return train, "has 9 class folders"
    if fault == "one class too many":
        (train / "zebra").mkdir()
        return train, "has 11 class folders"
    if fault == "empty class":
        shutil.rmtree(train / NAMES[9])
        (train / NAMES[9]).mkdir()
        return train / NAMES[9], "has no PNG or JPEG image"
    (root / "test" / NAMES[9]).rename(root / "test" / "lorry")
    return root, "same class folders; 'lorry' is in one"


@pytest.mark.parametrize(
    "fault",
    [
        *("wrong size", "huge", "no image", "another format", "truncated"),
        *("missing class", "one class too many", "empty class", "other classes"),
    ],
)
def test_a_broken_image_folder_is_named(data: Path, fault: str) -> None:
    write_folders(data / "cinic-10")
    path, says = spoil_folders(data / "cinic-10", fault)
    line = refused("cinic10")
    assert str(path) in line
    assert says in line


def test_nothing_found_says_what_to_put_where(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {name: tuple(form._replace(system=()) for form in forms) for name, forms in find.LAYOUTS.items()}
    monkeypatch.setattr(find, "LAYOUTS", hidden)
    for name, wanted in (
        ("mnist", "train-images-idx3-ubyte.gz"),
        ("fashion_mnist", str(data / "fashion-mnist")),
        ("cifar10", str(data / "cifar-10-batches-py")),
        ("cinic10", "ten class folders"),
    ):
        line = refused(name)
        assert wanted in line
        assert f"'baton data get {name}'" in line
        assert str(find.cache() / "data") in line


def test_what_is_missing_is_named(data: Path) -> None:
    write_all(data)
    for name, path, says in (
        ("mnist", data / "mnist" / f"{IDX[2]}.gz", f"{IDX[2]}.gz"),
        ("cifar10", data / "cifar-10-batches-py" / BATCHES[4], BATCHES[4]),
        ("cinic10", data / "cinic-10" / "test", "test"),
    ):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        line = refused(name)
        assert f"lacks {says};" in line
        assert str(path.parent) in line


@pytest.mark.parametrize(
    ("name", "place"),
    [("mnist", f"mnist/{IDX[0]}.gz"), ("cifar10", f"cifar-10-batches-py/{BATCHES[2]}"), ("cinic10", "cinic-10/train")],
)
def test_what_cannot_be_read_is_named(data: Path, name: str, place: str) -> None:
    """A folder where a file should be, and a file where a folder should be."""
    write_all(data)
    path = data / place
    if path.is_dir():
        shutil.rmtree(path)
        path.write_text("")
    else:
        path.unlink()
        path.mkdir()
    line = refused(name)
    assert str(path) in line
    assert "cannot be read" in line


def test_the_order_of_places(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / "given", data, find.cache() / "data"]
    assert find.roots() == places[1:]
    system = tmp_path / "system"
    form = find.LAYOUTS["fashion_mnist"][0]._replace(system=(str(system),))
    monkeypatch.setitem(find.LAYOUTS, "fashion_mnist", (form,))
    places[0].mkdir()
    monkeypatch.setenv("BATON_DATA", str(data))  # restored after the test
    find.use(places[0])
    assert find.roots() == places
    folders = [place / "fashion-mnist" for place in places] + [system]
    for k in reversed(range(4)):
        write_idx(folders[k], 20 + k)
        assert find.find("fashion_mnist").folder == folders[k]
        assert len(load("fashion_mnist").y) == 20 + k


def test_debians_place_is_known() -> None:
    assert find.LAYOUTS["fashion_mnist"][0].system == ("/usr/share/datasets/fashion-mnist",)


def test_a_data_dir_must_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"data-dir: .* is not a folder"):
        find.use(tmp_path / "nowhere")


def test_loading_is_lazy() -> None:
    """Registered, but nothing is read before it is asked for."""
    for name in IMAGES:
        source = datasets.source(name)
        assert source.partition == "iid"
        assert source.clients == (1000 if name == "cinic10" else 500)


def test_constants_are_the_papers() -> None:
    assert cifar10.MEAN == (0.49139968, 0.48215827, 0.44653124)
    assert cifar10.STD == (0.24703233, 0.24348505, 0.26158768)
    assert cinic10.MEAN == (0.47889522, 0.47227842, 0.43047404)
    assert cinic10.STD == (0.24205776, 0.23828046, 0.25874835)
    assert (idx.SIDE, cinic10.SIDE, cifar10.RECORDS) == (28, 32, 10_000)


def test_black_is_minus_mean_over_std(data: Path) -> None:
    write_all(data)
    black = {"mnist": -0.1307 / 0.3081, "fashion_mnist": -0.2860 / 0.3530}
    for name in IMAGES:
        found = load(name)
        assert found.prepare is not None
        ready = found.prepare(torch.zeros_like(found.x[:1]), torch.float64)
        mean, std = (cifar10.MEAN, cifar10.STD) if name == "cifar10" else (cinic10.MEAN, cinic10.STD)
        right = [black[name]] if name in black else [-m / s for m, s in zip(mean, std, strict=True)]
        torch.testing.assert_close(ready[0, :, 0, 0], torch.tensor(right, dtype=torch.float64))
