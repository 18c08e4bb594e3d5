"""What is kept: runs/<run_id>/, and work in flight. Nothing here trains."""

from baton.store.files import Damaged, write
from baton.store.history import History
from baton.store.metrics import Metrics
from baton.store.pool import Chunk, Facts, Laid, Pool
from baton.store.runs import Run, Store
from baton.store.snapshot import Snapshot

__all__ = ["Chunk", "Damaged", "Facts", "History", "Laid", "Metrics", "Pool", "Run", "Snapshot", "Store", "write"]
