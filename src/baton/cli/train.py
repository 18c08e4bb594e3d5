"""`baton run` and `baton sweep`: training."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import flags, words
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
from baton.cli.hops import hops_of, print_hops
from baton.cli.look import as_dict, show
from baton.cli.sites import print_personal
from baton.crew import HERE, Where, where
from baton.errors import BadInput
from baton.notice import many
from baton.shown import print

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
        str,
        typer.Option(
            "--measure",
            metavar="drift|hops|personal",
            help="Too: client drift of some rounds ('baton drift'), every site after every hand-over, or the final "
            "model trained a few steps more at each site.",
        ),
    ] = "",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one setting. The paper's letters are the short flags."""
    use_data_dir(data_dir)
    from baton.store import Store

    if measure not in ("", "drift", "hops", "personal"):
        raise BadInput(f"measure: {measure!r}; 'drift', 'hops' or 'personal' is right")
    setting, store = flags.setting(fields | {"smash_noise": smash_noise}), Store(runs)
    anew([setting], store, again)
    train([setting], store, device, memory, quiet or as_json, checkpoint_seconds, precision, anyway)
    silent = quiet or as_json
    drifts = drift_of(setting, "", DRAWS, False, device, memory, silent)[0] if measure == "drift" else []
    hops = hops_of(setting, store, device, silent) if measure == "hops" else []
    own = _personal(setting, store, device) if measure == "personal" else []
    if as_json:
        more: dict[str, Any] = {"drift": [drift._asdict() for drift in drifts]} if measure == "drift" else {}
        more |= {"hops": [each._asdict() for each in hops]} if measure == "hops" else {}
        more |= {"personal": own} if measure == "personal" else {}
        print_json(as_dict(store, setting.run_id) | more)
    elif not quiet:
        show(setting.run_id, runs)
        if measure == "drift":
            print_drift(setting, drifts, [], DRAWS)
        for each in hops:
            print_hops(each)
        if own:
            print_personal(own)
        known = {each.name or each.callback.__name__ for each in app.registered_commands if each.callback}
        print("", *words.following(store.read(setting.run_id), runs, known), sep="\n")


def _personal(setting: "Setting", store: "Store", device: str) -> list[dict[str, Any]]:
    """A row a site."""
    from baton.measure.personal import fine_tuned
    from baton.simulate.arithmetic import arithmetic, device_of

    with arithmetic("fp32"):
        found = fine_tuned(setting, store.params(setting.run_id), device_of(device))
    columns = zip(found.samples.tolist(), found.before.tolist(), found.after.tolist(), strict=True)
    rows = [{"site": m, "samples": n, "before": a, "after": b} for m, (n, a, b) in enumerate(columns)]
    for label, told in found.told.items():
        for m, (before, after) in told.items():
            rows[m][label] = {"before": before, "after": after}
    return rows


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
    from baton.study import measured

    place = where(on, parts, cores, shard)
    found, store = studies.read(study, scale), Store(runs)
    wanted = found.settings
    measured.check(found.report, [s for s in wanted if not store.complete(s.run_id)], load=True)
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
        are = "is" if len(wanted) == 1 else "are"
        print(f"{many(len(wanted), 'run')} of {study} {are} complete in {runs}")
        print(f"next: {shown_by(study, runs, scale)}")


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
    from baton.clients import steps as steps_of
    from baton.crew import grid
    from baton.simulate import memory as mem
    from baton.sweep import plan

    on, _, size, fine = grid.here(device, mem.parse(memory) if memory else None, place)
    found = plan(settings, store, on, size, cut=fine)
    lanes = [len(chunk) for chunk in found.chunks]
    steps = [sum(steps_of(s) for s in chunk) for chunk in found.chunks]
    samples = sum(steps_of(s) * s.batch_size for chunk in found.chunks for s in chunk)
    if as_json:
        counts = {"runs": len(settings), "complete": found.done, "programs": found.programs, "chunks": len(lanes)}
        print_json(counts | {"lanes": lanes, "steps": sum(steps), "samples": samples, "memory": found.memory})
        return
    cut = f"{many(sum(lanes), 'lane')} in {many(found.programs, 'program')}, {many(len(lanes), 'chunk')}"
    print(f"{many(len(settings), 'run')}, {found.done:,} complete; {cut}")
    each = ", ".join(mem.readable(size) for size in found.per_lane)
    print(f"memory {mem.readable(found.memory)}" + (f"; a lane needs {each}" if each else ""))
    for number, (chunk, count, cost) in enumerate(zip(found.chunks, lanes, steps, strict=True), 1):
        s = chunk[0]
        what = f"{s.algorithm}, {s.model}, M={s.clients} S={s.participants} {s.length.replace(' ', '')} R={s.rounds}"
        print(f"  chunk {number}: {what}", f"    {many(count, 'lane')} x {steps_of(s):,} steps = {cost:,}", sep="\n")
    print(f"{sum(steps):,} SGD steps over at most {samples:,} samples")
