"""Runs that are only looked at: of data sets that are not here, or of before ids knew their data."""

from collections.abc import Sequence

from baton import datasets
from baton.errors import BadInput
from baton.setting import Setting
from baton.store import Store


def look_back(settings: Sequence[Setting], store: Store) -> str:
    """From now on these settings mean runs as the store has them; a line to show, where that has to be said.

    A data set that is not here is taken to be the one that the store's runs were trained on. Runs of before ids knew
    their data are shown where there are no others: on which samples they were trained, they do not say.
    """
    before = []
    for spec, clients in dict.fromkeys((s.dataset, s.clients) for s in settings):
        here = _here(spec, clients)
        if here == "":
            continue
        there = {s.made_of.data for s in store.settings().values() if (s.dataset, s.clients) == (spec, clients)}
        if here in there or not there:
            continue
        if here is not None and "" not in there:
            continue  # other samples than those of the store: none of its runs is meant
        if here is None and len(there - {""}) > 1:
            raise BadInput(f"dataset: {spec} is not here, and the store has runs on several kinds of it; get it first")
        told = "" if here is not None else max(there)
        datasets.assume(spec, clients, told)
        before += [spec] if not told else []
    which = ", ".join(dict.fromkeys(before))
    return f"runs on {which} are of before ids knew their data: they do not say on which samples" if which else ""


def _here(spec: str, clients: int) -> str | None:
    """The content of a data set; None where it is not here."""
    try:
        return datasets.content(spec, clients)
    except BadInput:
        return None
