"""Which runs are exported, what is known about each, and what tells them apart."""

import importlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from baton.errors import BadInput
from baton.search import choices, extended
from baton.search.past import look_back
from baton.setting import Setting
from baton.shown import without_folders
from baton.store import Run, Store
from baton.store.journal import entries
from baton.study import Study


class Choice(NamedTuple):
    """The runs to export."""

    name: str  # of the study; of the store's folder where there is none
    about: str
    store: Store
    settings: dict[str, Setting]  # by run id


class Past(NamedTuple):
    """When and where a run was trained."""

    began: float  # seconds since 1970
    ended: float
    facts: dict[str, str]  # device, precision and versions, as far as the journal knows


Target = Callable[[Choice, str], Iterator[str]]  # yields the id of each run that is written


def choose(store: Store, study: Study | None) -> Choice:
    """The runs of a study that are in the store, finished or not; without a study, all of them."""
    if study is not None:
        look_back(study.settings, store)
        study = extended(study, choices(study, store)) if study.tune else study
        settings = {s.run_id: s for s in study.settings if store.stamp(s.run_id)}
        if not settings:
            raise BadInput(f"export: no run of study {study.name!r} in {store.root}; 'baton sweep' trains them")
        return Choice(study.name, study.about, store, settings)
    settings = {run: s for run, s in store.settings().items() if store.stamp(run)}
    if not settings:
        raise BadInput(f"export: no run in {store.root}; 'baton run' or 'baton sweep' trains some")
    return Choice(store.root.resolve().name, "", store, settings)


def read(choice: Choice, run_id: str) -> Run:
    """A stored run; an unfinished one has diverged if a row of nothing but nan ends it."""
    run = choice.store.read(run_id)
    if not run.complete and len(run.metrics["round"]):
        last = [values[-1] for name, values in run.metrics.items() if name != "round"]
        if np.isnan(last).all():
            return run._replace(diverged=int(run.metrics["round"][-1]))
    return run


def labels(choice: Choice) -> dict[str, str]:
    """By run id: the fields in which the runs differ, such as `algorithm=parallel,lr=0.1,seed=1`."""
    rows = {run: setting.model_dump() for run, setting in choice.settings.items()}
    vary = [field for field in Setting.model_fields if len({row[field] for row in rows.values()}) > 1]
    return {run: ",".join(f"{field}={without_folders(row[field])}" for field in vary) for run, row in rows.items()}


def pasts(choice: Choice) -> dict[str, Past]:
    """By run id: from runs/journal.jsonl; from the times of its files where that does not know."""
    known: dict[str, list[dict[str, Any]]] = {run: [] for run in choice.settings}
    for entry in _journal(choice.store.root):
        for run in entry["runs"]:
            if run in known:
                known[run].append(entry)
    return {run: _past(choice.store, run, own) for run, own in known.items()}


def _journal(root: Path) -> Iterator[dict[str, Any]]:
    """Its entries, with the times of each in seconds."""
    for entry in entries(root):
        try:
            at = datetime.fromisoformat(entry["ended"]).timestamp()
            yield {**entry, "began": at - float(entry["seconds"]), "at": at}
        except (ValueError, TypeError, KeyError):
            continue


def _past(store: Store, run: str, known: list[dict[str, Any]]) -> Past:
    last = max(store.stamp(run)) / 1e9
    if not known:
        return Past(last, last, {})
    began = min(entry["began"] for entry in known)
    ended = max(entry["at"] for entry in known)
    newest = known[-1]
    facts: dict[str, str] = {key: str(newest[key]) for key in ("device", "precision") if key in newest}
    facts |= {f"version.{name}": str(version) for name, version in newest.get("versions", {}).items()}
    return Past(began, ended if store.complete(run) else max(ended, last), facts)


def need(to: str, *modules: str) -> list[Any]:
    """Modules of an optional package."""
    try:
        return [importlib.import_module(name) for name in modules]
    except ImportError:
        package = "pyarrow" if to == "parquet" else to
        raise BadInput(f"export: --to {to} needs the package {package}; pip install 'baton-fl[{to}]'") from None
