"""Data sets by name. One file each; to add one: its file and one line in DATASETS."""

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from baton import synonyms
from baton.datasets import breast_cancer, cifar10, cinic10, digits, elsewhere, fashion_mnist, heart, mnist, quadratic
from baton.datasets.base import Dataset, Optimum, Source, prepared, tells_numbers
from baton.datasets.given import GIVEN, Data
from baton.datasets.numpy_files import NPY, NPZ
from baton.datasets.own import checked
from baton.datasets.pictures import IMAGES
from baton.datasets.table.load import CSV
from baton.errors import BadInput
from baton.names import behind, bind, canonical, path, split
from baton.usercode import call, own

DATASETS: dict[str, Source] = {
    "quadratic": quadratic.PAIR,
    "quadratic_random": quadratic.RANDOM,
    "quadratic_sides": quadratic.SIDES,
    "digits": digits.DIGITS,
    "mnist": mnist.MNIST,
    "fashion_mnist": fashion_mnist.FASHION_MNIST,
    "cifar10": cifar10.CIFAR10,
    "cinic10": cinic10.CINIC10,
    "breast_cancer": breast_cancer.BREAST_CANCER,
    "heart": heart.HEART,
    "csv": CSV,
    "npz": NPZ,
    "npy": NPY,
    "images": IMAGES,
    "data": GIVEN,
    "sites": elsewhere.SITES,
}
KINDS = {".csv": "csv", ".tsv": "csv", ".parquet": "csv", ".npz": "npz", ".npy": "npy"}  # of files, by their endings
FEW = 10  # clients, where nothing says how many
LOADERS = {name: source.load for name, source in DATASETS.items()}

__all__ = [
    "DATASETS",
    "LOADERS",
    "Data",
    "Dataset",
    "Optimum",
    "Source",
    "assume",
    "content",
    "default",
    "forget",
    "give",
    "load",
    "prepared",
    "shape",
    "sites",
    "sites_in",
    "source",
    "spelled",
    "tells_numbers",
]

_Asked = tuple[str, int, Callable[..., Any] | None]  # spec, clients, and the user's own loader, as it is now
_CONTENT: dict[_Asked, str] = {}
_GIVEN: dict[tuple[str, int], Dataset] = {}  # by spec and clients: loaded elsewhere


def source(spec: str) -> Source:
    """The registered source of a spec; a user's own loader gets the common defaults."""
    name, _ = split("dataset", spec, LOADERS)
    return DATASETS.get(name) or Source(bind("dataset", spec, LOADERS)[1], model="logistic", clients=0)


def spelled(spec: str) -> str:
    """A spec in its one spelling; what looks like a file is told how to write it."""
    head = spec.partition(":")[0]
    name = Path(head.partition(",")[0].rstrip("/"))
    kind = KINDS.get(Path(name.name.lower().removesuffix(".gz")).suffix)
    known = synonyms.registered("dataset", head, DATASETS)
    if not known and (kind or os.path.isdir(name)) and not path(spec, DATASETS):
        first = head.partition(",")[0]
        right = f"{kind or 'csv'}:{first}" + (",label=COLUMN" if kind != "npz" else "")
        raise BadInput(f"dataset: {first!r} is a file or a folder; {right} is right, or images:FOLDER for pictures")
    return canonical("dataset", spec, LOADERS)


def sites(spec: str) -> int | None:
    """How many sites of its own a data set has; None: none, or as many as are asked for. It may have to be loaded."""
    known = source(spec)
    if known.clients:
        return known.clients if known.sited else None
    return sites_in(load(spec, FEW))


def sites_in(data: Dataset) -> int | None:
    """How many sites its samples come from; None: from nowhere."""
    return None if data.owner is None else max(len(data.names), int(data.owner.max()) + 1)


def default(spec: str, field: str) -> str | int:
    """What a field of a setting is on this data set unless it is given: one a site, where the samples have any."""
    known = source(spec)
    if known.clients or field not in ("clients", "partition"):
        return getattr(known, field)  # type: ignore[no-any-return]
    count = sites(spec)
    return (count or FEW) if field == "clients" else "natural" if count else "iid"


def shape(spec: str) -> str:
    """What must be equal for two specs to share a program."""
    name, params = split("dataset", spec, LOADERS)
    fixed = source(spec).shape
    return f"{name}:{sorted((k, v) for k, v in params.items() if fixed is None or k in fixed)}"


def load(spec: str, clients: int) -> Dataset:
    """The data set a spec names."""
    asked = _asked(spec, clients)
    return _GIVEN.get(asked[:2]) or _load(asked)


def _asked(spec: str, clients: int) -> _Asked:
    """What is loaded once: samples that do not depend on M are the same for all."""
    known = DATASETS.get(spec.partition(":")[0])
    return spec, 0 if known and not known.clients else clients, behind("dataset", spec, LOADERS)


@lru_cache(maxsize=64)
def _load(asked: _Asked) -> Dataset:
    spec, clients, _ = asked
    name, loader, params = bind("dataset", spec, LOADERS)
    data: Dataset = call("dataset", name, loader, clients, **params)
    data = checked(data, name, loader) if own(name) else data
    if _CONTENT.setdefault(asked, data.content) != data.content:  # it was dropped to make room, and loaded again
        raise BadInput(f"dataset: {spec!r} has other samples than when this process first loaded it; start again")
    return data


def content(spec: str, clients: int) -> str:
    """What tells the samples behind a spec from others: 16 hex digits; "" where the spec alone says what they are.

    They are loaded where there is no other way to know: what is told is what is trained on.
    """
    asked = _asked(spec, clients)
    if asked[:2] in _GIVEN:
        return _GIVEN[asked[:2]].content
    known = _CONTENT.get(asked)
    if known is None:
        cheap = source(spec).content
        known = _CONTENT[asked] = _load(asked).content if cheap is None else cheap()
    return known


def assume(spec: str, clients: int, told: str) -> None:
    """Take the samples behind a spec for those: of runs that are only looked at, where the data set is not here."""
    _CONTENT[_asked(spec, clients)] = told


def give(spec: str, clients: int, data: Dataset) -> None:
    """Let this be what a spec names, whatever lies here: another machine loaded it."""
    _GIVEN[_asked(spec, clients)[:2]] = data


def forget() -> None:
    """Load everything again when it is asked for: data folders may have changed."""
    _load.cache_clear()
    _CONTENT.clear()
    _GIVEN.clear()
