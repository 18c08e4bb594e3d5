"""scikit-learn's breast cancer data, which comes inside that package: 569 patients, here at four hospitals.

The hospitals are made up: the data set names none. Patients are put in order of the size of their tumour, blurred by a
keyed draw, and cut into 300, 150, 80 and 39: so hospitals differ a lot in size and mildly in whom they see; 69, 58, 65
and 31 percent of their tumours are benign.
"""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from baton import rng
from baton.datasets.base import Dataset, Source, cross_entropy
from baton.datasets.content import of_arrays
from baton.datasets.table.scale import moments
from baton.datasets.table.split import held_back

SITES = {"north": 300, "south": 150, "east": 80, "west": 39}
KNOWN = "fed3eb72d0575ef6"  # of the file in scikit-learn 1.9.1
BLUR = 30.0  # standard deviations of the tumours' size that the draw spans


def load(clients: int) -> Dataset:
    """Four hospitals of 300, 150, 80 and 39 patients, a fifth of each to test on; 30 features, malignant or benign."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    y, site = bunch.target.astype(np.int64), sites(bunch.data[:, 0])
    test = held_back(y, site, tuple(SITES), 0.2, 0)
    train = ~test
    columns = [
        moments(column[train], site[train], len(SITES), "pooled").of(column, site).astype(np.float32)
        for column in bunch.data.T
    ]
    x = torch.from_numpy(np.column_stack(columns))
    label, owner = torch.from_numpy(y), torch.from_numpy(site)
    return Dataset(
        x[train],
        label[train],
        x[test],
        label[test],
        2,
        cross_entropy,
        owner=owner[train],
        test_owner=owner[test],
        names=tuple(SITES),
        content=content(),
        notes=(
            "breast_cancer: its four hospitals are made up, 300, 150, 80 and 39 patients, by tumour size and chance",
        ),
    )


def sites(radius: NDArray[np.float64]) -> NDArray[np.int64]:
    """[n] the hospital of each patient, by the mean radius and a uniform draw."""
    draw = rng.uniform(rng.bits(torch.tensor(0), rng.DATA, torch.arange(len(radius)))).numpy()
    order = np.argsort((radius - radius.mean()) / radius.std() + BLUR * draw, kind="stable")
    site = np.empty(len(radius), np.int64)
    site[order] = np.repeat(np.arange(len(SITES)), list(SITES.values()))
    return site


@cache
def content() -> str:
    """Of the file that is loaded, read without the package's code; "" where it is the one that everybody has."""
    try:
        spec = find_spec("sklearn")
        folders = (spec and spec.submodule_search_locations) or [""]
        data = (Path(folders[0]) / "datasets" / "data" / "breast_cancer.csv").read_bytes()
        found = hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:16]
    except OSError:  # not there
        from sklearn.datasets import load_breast_cancer

        bunch = load_breast_cancer()
        return of_arrays([bunch.data, bunch.target])
    return "" if found == KNOWN else found


BREAST_CANCER = Source(load, "logistic", len(SITES), "natural", content=content, sited=True)
