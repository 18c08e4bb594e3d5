"""The library's front door."""

from collections.abc import Sequence
from pathlib import Path

from baton import memory as mem
from baton import progress
from baton.setting import Setting
from baton.store import Run, Store
from baton.sweep import device_of, sweep


def run(
    settings: Sequence[Setting] | Setting,
    runs: str | Path = "runs",
    device: str = "auto",
    memory: str | None = None,
    quiet: bool = False,
) -> list[Run]:
    """Train settings as lanes, or go on with them, and return them as stored; progress goes to stderr."""
    wanted = [settings] if isinstance(settings, Setting) else list(settings)
    store = Store(runs)
    progress.show(sweep(wanted, store, device_of(device), mem.parse(memory) if memory else None), quiet)
    return [store.read(s.run_id) for s in wanted]
