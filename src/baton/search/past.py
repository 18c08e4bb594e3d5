"""Runs that are only looked at, of data sets that are not here."""

from collections.abc import Sequence

from baton import datasets
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Store


def look_back(settings: Sequence[Setting], store: Store) -> None:
    """Take a data set that is not here for the one that the store's runs were trained on: these settings mean those."""
    for spec, clients in dict.fromkeys((s.dataset, s.clients) for s in settings):
        if _here(spec, clients):
            continue
        there = {s.made_of.data for s in store.settings().values() if (s.dataset, s.clients) == (spec, clients)}
        if len(there) > 1:
            raise BadInput(f"dataset: {spec} is not here, and the store has runs on several kinds of it; get it first")
        if there:
            datasets.assume(spec, clients, max(there))


def _here(spec: str, clients: int) -> bool:
    """Return whether the data set is here."""
    try:
        datasets.content(spec, clients)
    except BadInput:
        return False
    return True
