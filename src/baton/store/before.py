"""Work in flight as it was before the pool: runs/.work/<plan>/ with a plan.json and a checkpoint a chunk."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from baton.setting import Setting
from baton.store import files
from baton.store.pool import Laid
from baton.store.runs import Store


def adopt(store: Store, wanted: Mapping[str, Setting], device: str, precision: str) -> None:
    """Chunks in flight of which all is wanted, in the same way, become chunks of the pool."""
    for path in sorted(store.pool.work.glob("*/plan.json")):
        with suppress(OSError, files.Damaged, KeyError, TypeError, ValueError):
            plan = files.read_json(path)
            if plan["precision"] != precision:
                continue
            begun = plan.get("begun", [0] * len(plan["chunks"]))
            for number, (runs, share, rounds) in enumerate(zip(plan["chunks"], plan["share"], begun, strict=True)):
                checkpoint = path.parent / f"{number:05d}.safetensors"
                if checkpoint.is_file() and wanted.keys() >= set(runs):
                    texts = [wanted[run].to_json() for run in runs]
                    store.pool.lay(Laid(runs, texts, device, precision, share, 0, rounds, "", {}), checkpoint)
            _tidy(path.parent)


def _tidy(folder: Path) -> None:
    """A plan without checkpoints is of no use to anybody."""
    if not list(folder.glob("*.safetensors")):
        for name in ("plan.json", "lock"):
            (folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            folder.rmdir()
