"""What is kept: runs/<run_id>/, and work in flight."""

from baton.store.runs import Laid, Metrics, Run, Store, Work, write

__all__ = ["Laid", "Metrics", "Run", "Store", "Work", "write"]
