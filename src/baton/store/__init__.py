"""What is kept: runs/<run_id>/, and work in flight. Nothing here trains."""

from baton.store.files import write
from baton.store.history import History
from baton.store.metrics import Metrics
from baton.store.runs import Run, Store
from baton.store.snapshot import Snapshot
from baton.store.work import Laid, Work

__all__ = ["History", "Laid", "Metrics", "Run", "Snapshot", "Store", "Work", "write"]
