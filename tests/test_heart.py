"""Four hospitals: FLamby's counts, features and scaling, recomputed here from the raw lines; and the made-up ones."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedShuffleSplit

from baton import datasets
from baton.datasets import breast_cancer, fetch, find
from baton.datasets.check import check
from baton.datasets.official import Download, Remote
from baton.errors import BadInput
from baton.setting import Setting
from contracts.examples import finish, series

pytest_plugins = ["fixtures_data"]

PLACES = [folder / "shared" / "data" / "heart" for folder in Path(__file__).resolve().parents]
FILES = tuple(f"processed.{site}.data" for site in ("cleveland", "hungarian", "switzerland", "va"))
COUNTS = ((199, 104), (172, 89), (30, 16), (85, 45))  # FLamby's


@pytest.fixture
def heart(data: Path) -> Path:
    """The raw files in the data folder."""
    raw = next((place for place in PLACES if place.is_dir()), None)
    if raw is None:
        pytest.skip("the raw files are not on this machine: 'baton data get heart'")
    folder = data / "heart"
    folder.mkdir()
    for name in FILES:
        shutil.copyfile(raw / name, folder / name)
    return folder


def by_hand(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """13 features and the label of the patients without a missing value, one line after another."""
    rows, sick = [], []
    for line in path.read_text().split():
        cell = line.split(",")
        if "?" in cell[:10]:
            continue
        age, sex, pain, pressure, chol, sugar, ecg, rate, angina, peak = map(float, cell[:10])
        hot = [float(pain == k) for k in (2, 3, 4)] + [float(ecg == k) for k in (1, 2)]
        rows.append([age, sex, pressure, chol, sugar, rate, angina, peak, *hot])
        sick.append(int(float(cell[13]) > 0))
    return np.array(rows), np.array(sick)


def test_counts_features_and_scaling_are_flambys(heart: Path) -> None:
    data = datasets.load("heart", 4)
    assert data.names == ("cleveland", "hungary", "switzerland", "va")
    assert data.owner is not None
    assert data.test_owner is not None
    for i, (name, counts) in enumerate(zip(FILES, COUNTS, strict=True)):
        x, y = by_hand(heart / name)
        mine, tests = data.owner == i, data.test_owner == i
        assert (int(mine.sum()), int(tests.sum())) == counts
        # train_test_split with stratify is one draw of StratifiedShuffleSplit; Switzerland has enough of both for it
        draw = StratifiedShuffleSplit(1, train_size=0.66, test_size=1 - 0.66, random_state=43)
        if (np.bincount(y, minlength=2) > 2).all():
            train, test = (np.sort(part) for part in next(draw.split(x, y)))
            assert np.array_equal(data.y[mine].numpy(), y[train])
            assert np.array_equal(data.test_y[tests].numpy(), y[test])
            kept = torch.from_numpy(x).float()
            mean, deviation = kept[train].mean(0), kept[train].std(0)  # torch's: over n - 1
            held = deviation > 0
            right = ((kept - mean) / (deviation + 1e-9))[:, held]
            torch.testing.assert_close(data.x[mine][:, held], right[train], rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(data.test_x[tests][:, held], right[test], rtol=1e-4, atol=1e-4)
        assert bool((data.x[mine].mean(0).abs() < 1e-5).all())
    assert len(data.content) == 16


@pytest.mark.usefixtures("data")
def test_defaults_and_sites_without_loading() -> None:
    """Four hospitals are known before any file is looked for."""
    setting = Setting(dataset="heart")
    assert (setting.clients, setting.partition, setting.model) == (4, "natural", "logistic")
    assert datasets.sites("heart") == 4
    with pytest.raises(BadInput, match="let 'baton data get heart' download it"):
        datasets.load("heart", 4)


def test_it_trains(heart: Path) -> None:
    assert heart.is_dir()
    _, at = finish([Setting(dataset="heart", rounds=10, local_steps=20, batch_size=4, lr=0.01, eval_every=10)])
    assert series(at, "test_accuracy")[10] > 65
    assert series(at, "test_loss")[10] < series(at, "test_loss")[0]


def test_official_values_however_they_are_spelled(heart: Path) -> None:
    assert check("heart")[:2] == ("heart", "official")
    path = heart / FILES[1]
    path.write_text(path.read_text().replace("?", " ? ").replace("\n", "\r\n"))
    assert check("heart").state == "official"
    path.write_text(path.read_text().replace("28,1,2,130", "28,1,2,131", 1))
    assert check("heart").state == "other data"
    path.write_text(path.read_text().replace("28,1,2,131", "28,1,131", 1))
    with pytest.raises(BadInput, match="line 1 has 13 fields; 14 is right"):
        check("heart")


def test_the_archive_is_unpacked_where_it_lies(data: Path) -> None:
    archive = data / "heart+disease.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in (*FILES, "heart-disease.names", "../outside"):
            packed.writestr(name, "63,1,1,145,233,1,2,150,0,2.3,3,0,6,0\n")
    remote = Remote(archive.name, fetch.digest_of(archive, "sha256"), ("https://localhost:1/",))
    folder = fetch.get("heart", data, downloads={"heart": Download("heart", (remote,), archive=True)})
    assert folder == data / "heart"
    assert not find.find("heart").missing
    assert not archive.exists()
    assert not (data.parent / "outside").exists()


def test_breast_cancer_is_the_same_everywhere() -> None:
    data = datasets.load("breast_cancer", 4)
    assert data.owner is not None
    assert data.test_owner is not None
    sizes = data.owner.bincount() + data.test_owner.bincount()
    assert sizes.tolist() == [300, 150, 80, 39]
    assert data.content == ""  # as everybody has it
    assert Setting(dataset="breast_cancer").run_id == Setting(dataset="breast_cancer").key
    from sklearn.datasets import load_breast_cancer

    site = breast_cancer.sites(load_breast_cancer().data[:, 0])
    share = [round(float(load_breast_cancer().target[site == i].mean()), 2) for i in range(4)]
    assert share == [0.69, 0.58, 0.65, 0.31]  # as its docstring says
    torch.testing.assert_close(data.x.mean(0), torch.zeros(30), atol=1e-5, rtol=0)
    _, at = finish([Setting(dataset="breast_cancer", rounds=10, eval_every=10)])
    assert series(at, "test_accuracy")[10] > 90
