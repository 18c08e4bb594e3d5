"""Runs that tests put into a store by hand."""

import shutil
from collections.abc import Iterable

from baton import datasets
from baton.setting import Setting
from baton.store import Chunk, Laid, Snapshot, Store


def finish(store: Store, setting: Setting, at: Snapshot) -> None:
    """A complete run, in the place of one that may be there."""
    shutil.rmtree(store.folder(setting.run_id), ignore_errors=True)
    store.finish([setting], at)


def begin(store: Store, setting: Setting, at: Snapshot) -> Chunk:
    """A run in flight, as far as this."""
    laid = Laid([setting.run_id], [setting.to_json()], "cpu", "fp32", 1.0, 0, 0, "", {})
    chunk = store.pool.lay(laid)
    with store.pool.workers.working() as worker:
        claim = store.pool.take(chunk, worker)
        assert claim
        store.pool.save(claim, at, {})
    return chunk


def without_data(settings: Iterable[Setting]) -> None:
    """Make-believe: their data sets need not be here, since nothing is trained."""
    for spec, clients in {(s.dataset, s.clients) for s in settings}:
        if datasets.DATASETS[spec.partition(":")[0]].content is None:
            datasets.assume(spec, clients, "made by hand")
