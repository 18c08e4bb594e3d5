"""Data sets by name. One file each; to add one: its file and one line in DATASETS."""

from functools import lru_cache

from baton.datasets import cifar10, cinic10, digits, fashion_mnist, mnist, quadratic
from baton.datasets.base import Dataset, Optimum, Source, prepared
from baton.datasets.own import checked
from baton.names import bind, split
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

__all__ = ["DATASETS", "LOADERS", "Dataset", "Optimum", "Source", "load", "prepared", "shape", "source"]


def source(spec: str) -> Source:
    """The registered source of a spec; a user's own loader gets the common defaults."""
    name, _ = split("dataset", spec, DATASETS)
    return DATASETS.get(name) or Source(bind("dataset", spec, LOADERS)[1], model="logistic", clients=10)


def shape(spec: str) -> str:
    """What must be equal for two specs to share a program."""
    name, params = split("dataset", spec, DATASETS)
    fixed = source(spec).shape
    return f"{name}:{sorted((k, v) for k, v in params.items() if fixed is None or k in fixed)}"


@lru_cache(maxsize=64)
def load(spec: str, clients: int) -> Dataset:
    """The data set a spec names."""
    name, loader, params = bind("dataset", spec, LOADERS)
    data: Dataset = call("dataset", name, loader, clients, **params)
    return checked(data, name, loader) if own(name) else data
