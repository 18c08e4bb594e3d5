"""UCI Heart Disease: 740 patients of four hospitals, as FLamby's Fed-Heart-Disease cleans, splits and scales them."""

import csv
import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from baton.datasets.base import Dataset, Source, cross_entropy
from baton.datasets.content import of_dataset
from baton.datasets.find import Found, find, reading
from baton.errors import BadInput
from baton.regular import read

SITES = ("cleveland", "hungary", "switzerland", "va")
COLUMNS = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak")
FIELDS = 14  # those, then slope, ca and thal, which most patients lack, and num
HOT = ("cp", "restecg")  # one-hot, less their first level, behind the other columns
LARGEST = 1 << 20  # bytes of a file
TRAIN, STATE = 0.66, 43  # FLamby's share and random state
FEATURES = (
    *(name for name in COLUMNS if name not in HOT),
    *("cp=2", "cp=3", "cp=4"),
    *("restecg=1", "restecg=2"),
)

Floats = NDArray[np.float64]


class Hospital(NamedTuple):
    """Its patients without a missing value."""

    rows: Floats  # [n, 10] as in the file
    sick: NDArray[np.int64]  # [n] num > 0
    patients: int  # with the others


def load(clients: int) -> Dataset:
    """Four hospitals, 486 patients to train on and 254 to test on, 13 features, sick or not."""
    found = find("heart")
    with reading(found):
        return dataset([hospital(path) for path in found.files])


def hospital(path: Path) -> Hospital:
    """One file: 14 fields a patient, ? where a value is missing."""
    lines = read(path, LARGEST, field="dataset").decode("ascii", "replace").splitlines()
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if row]
    for number, row in enumerate(rows, 1):
        if len(row) != FIELDS:
            raise BadInput(f"dataset: {path}: line {number} has {len(row)} fields; {FIELDS} is right")
    kept = []
    for number, row in enumerate(rows, 1):
        cells = [*row[: len(COLUMNS)], row[-1]]
        if "?" in cells or "" in cells:
            continue
        try:
            kept.append([float(cell) for cell in cells])
        except ValueError as error:
            raise BadInput(f"dataset: {path}: line {number} has what is no number ({error})") from None
    if not kept:
        raise BadInput(f"dataset: {path}: has no patient without a missing value")
    values = np.array(kept)
    return Hospital(values[:, :-1], (values[:, -1] > 0).astype(np.int64), len(rows))


def dataset(hospitals: list[Hospital]) -> Dataset:
    """One-hot over all hospitals, split and scaled in each on its own."""
    x, y, test_x, test_y = [], [], [], []
    for each in hospitals:
        features = encoded(each.rows).astype(np.float32)  # as FLamby holds them before it scales
        train, test = split(each.sick)
        mean, deviation = features[train].mean(0, np.float64), features[train].std(0, np.float64, ddof=1)
        scaled = (features - mean) / np.where(deviation > 0, deviation, 1.0)
        x.append(scaled[train])
        y.append(each.sick[train])
        test_x.append(scaled[test])
        test_y.append(each.sick[test])
    owner, test_owner = (np.repeat(np.arange(len(part)), [len(rows) for rows in part]) for part in (y, test_y))
    data = Dataset(
        torch.from_numpy(np.concatenate(x)).float(),
        torch.from_numpy(np.concatenate(y)),
        torch.from_numpy(np.concatenate(test_x)).float(),
        torch.from_numpy(np.concatenate(test_y)),
        2,
        cross_entropy,
        owner=torch.from_numpy(owner),
        test_owner=torch.from_numpy(test_owner),
        names=SITES,
        notes=(_note(hospitals),),
    )
    return data._replace(content=of_dataset(data))


def encoded(rows: Floats) -> Floats:
    """[n, 10] -> [n, 13] in FLamby's order: eight columns, then chest pain 2 to 4, then electrocardiogram 1 and 2."""
    plain = [i for i, name in enumerate(COLUMNS) if name not in HOT]
    pain, heart = (rows[:, COLUMNS.index(name)] for name in HOT)
    hot = [pain == level for level in (2, 3, 4)] + [heart == level for level in (1, 2)]
    return np.column_stack([rows[:, plain], *hot]).astype(np.float64)


def split(sick: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A hospital's training and test patients, each in the file's order."""
    from sklearn.model_selection import train_test_split

    counts = np.bincount(sick, minlength=2)
    by = sick if (counts > 2).all() else None  # FLamby's rule
    sizes = {"train_size": TRAIN, "test_size": 1 - TRAIN, "random_state": STATE}
    train, test = train_test_split(np.arange(len(sick)), stratify=by, **sizes)
    return np.sort(train), np.sort(test)


def _note(hospitals: list[Hospital]) -> str:
    kept, all_ = sum(len(each.sick) for each in hospitals), sum(each.patients for each in hospitals)
    gone = f"{all_ - kept} of {all_} patients dropped for missing values"
    single = [
        name for name, each in zip(SITES, hospitals, strict=True) if len(np.unique(each.sick[split(each.sick)[0]])) < 2
    ]
    alike = f"; all training patients are sick at: {', '.join(single)}" if single else ""
    return f"heart: {gone}; slope, ca and thal left out; standardised hospital by hospital{alike}"


def digest(found: Found) -> str:
    """What tells the files' values from others, however they are spelled."""
    text = hashlib.sha256()
    for path in found.files:
        for row in csv.reader(read(path, LARGEST, field="dataset").decode("ascii", "replace").splitlines()):
            cells = ("" if cell.strip() in ("?", "") else repr(float(cell)) for cell in row)
            text.update((",".join(cells) + "\n").encode())
    return text.hexdigest()


HEART = Source(load, model="logistic", clients=len(SITES), partition="natural", sited=True)
