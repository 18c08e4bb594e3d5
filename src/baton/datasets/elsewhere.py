"""Samples that are at real sites and nowhere else: rows of numbers, each site's in its own file."""

from baton.datasets.base import Dataset, Source, by_spec
from baton.errors import BadInput

NAME = "sites"


def load(clients: int, *, of: str, features: int, classes: int) -> Dataset:
    """The rows of the federation `of`; they can be trained on there alone, by `baton deploy start`."""
    raise BadInput(f"dataset: {NAME}:of={of}: its samples are at the sites; 'baton deploy start' trains there")


SITES = Source(load, model="logistic", clients=2, partition="natural", content=by_spec)
