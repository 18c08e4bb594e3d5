"""`baton run` and `baton sweep`: training."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import flags
from baton.cli.common import (
    Again,
    Anyway,
    Checkpoint,
    Cores,
    DataDir,
    Device,
    Devices,
    Json,
    Memory,
    On,
    Parts,
    Precision,
    Quiet,
    Runs,
    Scale,
    ShardOf,
    StudyName,
    app,
    print_json,
    reading,
    shown_by,
    use_data_dir,
)
from baton.cli.constants import DRAWS, drift_of, print_drift
from baton.cli.look import as_dict, show
from baton.crew import HERE, Where, where
from baton.errors import BadInput

if TYPE_CHECKING:
    from baton.setting import Setting
    from baton.store import Store


@app.command()
@flags.of_a_setting
def run(
    fields: dict[str, Any],
    smash_noise: flags.SmashNoise = None,
    data_dir: DataDir = None,
    runs: Runs = Path("runs"),
    device: Device = "auto",
    memory: Memory = None,
    precision: Precision = "auto",
    checkpoint_seconds: Checkpoint = 20.0,
    again: Again = False,
    anyway: Anyway = False,
    measure: Annotated[
        str, typer.Option("--measure", metavar="drift", help="Client drift of some rounds too; see 'baton drift'.")
    ] = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one setting. The paper's letters are the short flags."""
    use_data_dir(data_dir)
    from baton.store import Store

    if measure not in ("", "drift"):
        raise BadInput(f"measure: {measure!r}; 'drift' is right")
    setting, store = flags.setting(fields | {"smash_noise": smash_noise}), Store(runs)
    anew([setting], store, again)
    train([setting], store, device, memory, quiet or as_json, checkpoint_seconds, precision, anyway)
    drifts = drift_of(setting, "", DRAWS, False, device, memory, quiet or as_json)[0] if measure else []
    if as_json:
        more = {"drift": [drift._asdict() for drift in drifts]} if measure else {}
        print_json(as_dict(store, setting.run_id) | more)
    elif not quiet:
        show(setting.run_id, runs)
        if measure:
            print_drift(setting, drifts, [], DRAWS)


@app.command()
def sweep(
    study: StudyName,
    scale: Scale = 1.0,
    data_dir: DataDir = None,
    runs: Runs = Path("runs"),
    device: Devices = "auto",
    memory: Memory = None,
    precision: Precision = "auto",
    checkpoint_seconds: Checkpoint = 20.0,
    again: Again = False,
    anyway: Anyway = False,
    on: On = "",
    shard: ShardOf = "",
    parts: Parts = 0,
    cores: Cores = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and what it costs; train nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train every run of a study that is not in the store yet."""
    reading(runs, quiet or as_json)
    use_data_dir(data_dir)
    from baton import study as studies
    from baton.store import Store

    place = where(on, parts, cores, shard)
    wanted, store = studies.read(study, scale).settings, Store(runs)
    if dry_run:
        _print_plan(wanted, store, device, memory, as_json, place)
        return
    anew(wanted, store, again)
    train(wanted, store, device, memory, quiet or as_json, checkpoint_seconds, precision, anyway, place)
    there = [s for s in wanted if store.complete(s.run_id)]
    if as_json:
        print_json([as_dict(store, s.run_id) for s in there])
    elif not quiet and len(there) < len(wanted):
        print(f"{len(there)} of {len(wanted)} runs of {study} are complete in {runs}; other shards are at the rest")
    elif not quiet:
        print(f"{len(wanted)} runs of {study} are complete in {runs}; '{shown_by(study, runs, scale)}' shows them")


def anew(settings: "Sequence[Setting]", store: "Store", again: bool) -> None:
    """With --again: what is there of these runs is moved aside, so that they are trained from the start."""
    if again:
        from baton.store.upkeep import forget

        for place in forget(store, [s.run_id for s in settings], "again"):
            print(f"baton: what was there is now in {place}", file=sys.stderr)


def train(
    settings: "Sequence[Setting]",
    store: "Store",
    device: str,
    memory: str | None,
    quiet: bool,
    checkpoint: float = 20.0,
    precision: str = "auto",
    anyway: bool = False,
    place: Where = HERE,
) -> None:
    """Follow a sweep with its progress; stopped, it says how to go on. place: on more than this process."""
    from baton.crew import grid
    from baton.simulate import memory as mem
    from baton.sweep import progress, stopping

    size = mem.parse(memory) if memory else None
    try:
        at = grid.train(settings, store, device, size, checkpoint, precision, anyway, place)
        progress.follow(at, quiet, ending=True)
    except stopping.Stopped as stop:
        print(f"baton: stopped; the same command goes on from here ({store.root})", file=sys.stderr)
        raise SystemExit(stop.code) from None


def _print_plan(
    settings: "Sequence[Setting]", store: "Store", device: str, memory: str | None, as_json: bool, place: Where
) -> None:
    from baton.crew import grid
    from baton.simulate import memory as mem
    from baton.sweep import plan

    on, _, size, fine = grid.here(device, mem.parse(memory) if memory else None, place)
    found = plan(settings, store, on, size, cut=fine)
    lanes = [len(chunk) for chunk in found.chunks]
    steps = [sum(s.steps for s in chunk) for chunk in found.chunks]
    samples = sum(s.steps * s.batch_size for chunk in found.chunks for s in chunk)
    if as_json:
        counts = {"runs": len(settings), "complete": found.done, "programs": found.programs, "chunks": len(lanes)}
        print_json(counts | {"lanes": lanes, "steps": sum(steps), "samples": samples, "memory": found.memory})
        return
    cut = f"{sum(lanes)} lanes in {found.programs} programs, {len(lanes)} chunks"
    print(f"{len(settings)} runs, {found.done} complete; {cut}")
    each = ", ".join(mem.readable(size) for size in found.per_lane)
    print(f"memory {mem.readable(found.memory)}" + (f"; a lane needs {each}" if each else ""))
    for number, (chunk, count, cost) in enumerate(zip(found.chunks, lanes, steps, strict=True), 1):
        s = chunk[0]
        what = f"{s.algorithm}, {s.model}, M={s.clients} S={s.participants} K={s.local_steps} R={s.rounds}"
        print(f"  chunk {number}: {count} lanes x {s.steps:,} steps = {cost:,}  ({what})")
    print(f"{sum(steps):,} SGD steps over at most {samples:,} samples")
