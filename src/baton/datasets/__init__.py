"""Data sets by name. One file each; to add one: its file and one line in DATASETS."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from baton.datasets import cifar10, cinic10, digits, fashion_mnist, mnist, quadratic
from baton.datasets.base import Dataset, Optimum, Source, prepared
from baton.datasets.own import checked
from baton.errors import BadInput
from baton.names import behind, bind, split
from baton.usercode import call, own

DATASETS: dict[str, Source] = {
    "quadratic": quadratic.PAIR,
    "quadratic_random": quadratic.RANDOM,
    "digits": digits.DIGITS,
    "mnist": mnist.MNIST,
    "fashion_mnist": fashion_mnist.FASHION_MNIST,
    "cifar10": cifar10.CIFAR10,
    "cinic10": cinic10.CINIC10,
}
LOADERS = {name: source.load for name, source in DATASETS.items()}

__all__ = [
    "DATASETS",
    "LOADERS",
    "Dataset",
    "Optimum",
    "Source",
    "assume",
    "content",
    "forget",
    "give",
    "load",
    "prepared",
    "shape",
    "source",
]

_Asked = tuple[str, int, Callable[..., Any] | None]  # spec, clients, and the user's own loader, as it is now
_CONTENT: dict[_Asked, str] = {}
_GIVEN: dict[tuple[str, int], Dataset] = {}  # by spec and clients: loaded elsewhere


def source(spec: str) -> Source:
    """The registered source of a spec; a user's own loader gets the common defaults."""
    name, _ = split("dataset", spec, DATASETS)
    return DATASETS.get(name) or Source(bind("dataset", spec, LOADERS)[1], model="logistic", clients=10)


def shape(spec: str) -> str:
    """What must be equal for two specs to share a program."""
    name, params = split("dataset", spec, DATASETS)
    fixed = source(spec).shape
    return f"{name}:{sorted((k, v) for k, v in params.items() if fixed is None or k in fixed)}"


def load(spec: str, clients: int) -> Dataset:
    """The data set a spec names."""
    return _GIVEN.get((spec, clients)) or _load((spec, clients, behind("dataset", spec, LOADERS)))


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
    if (spec, clients) in _GIVEN:
        return _GIVEN[spec, clients].content
    asked = spec, clients, behind("dataset", spec, LOADERS)
    known = _CONTENT.get(asked)
    if known is None:
        cheap = source(spec).content
        known = _CONTENT[asked] = _load(asked).content if cheap is None else cheap()
    return known


def assume(spec: str, clients: int, told: str) -> None:
    """Take the samples behind a spec for those: of runs that are only looked at, where the data set is not here."""
    _CONTENT[spec, clients, behind("dataset", spec, LOADERS)] = told


def give(spec: str, clients: int, data: Dataset) -> None:
    """Let this be what a spec names, whatever lies here: another machine loaded it."""
    _GIVEN[spec, clients] = data


def forget() -> None:
    """Load everything again when it is asked for: data folders may have changed."""
    _load.cache_clear()
    _CONTENT.clear()
    _GIVEN.clear()
