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
    DataDir,
    Device,
    Json,
    Memory,
    Precision,
    Quiet,
    Runs,
    Scale,
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
    device: Device = "auto",
    memory: Memory = None,
    precision: Precision = "auto",
    checkpoint_seconds: Checkpoint = 20.0,
    again: Again = False,
    anyway: Anyway = False,
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

    found, store = studies.read(study, scale), Store(runs)
    wanted = found.settings
    measured.check(found.report, [s for s in wanted if not store.complete(s.run_id)], load=True)
    if dry_run:
        _print_plan(wanted, store, device, memory, as_json)
        return
    anew(wanted, store, again)
    train(wanted, store, device, memory, quiet or as_json, checkpoint_seconds, precision, anyway)
    if as_json:
        print_json([as_dict(store, s.run_id) for s in wanted])
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
) -> None:
    """Follow a sweep with its progress; stopped, it says how to go on."""
    from baton.simulate import memory as mem
    from baton.simulate.arithmetic import device_of, precision_of
    from baton.sweep import progress, stopping, sweep

    on = device_of(device)
    how = precision_of(precision, on)
    size = mem.parse(memory) if memory else None
    try:
        progress.follow(sweep(settings, store, on, size, checkpoint, how, anyway), quiet, ending=True)
    except stopping.Stopped as stop:
        print(f"baton: stopped; the same command goes on from here ({store.root})", file=sys.stderr)
        raise SystemExit(stop.code) from None


def _print_plan(settings: "Sequence[Setting]", store: "Store", device: str, memory: str | None, as_json: bool) -> None:
    from baton.clients import steps as steps_of
    from baton.simulate import memory as mem
    from baton.simulate.arithmetic import device_of
    from baton.sweep import plan

    found = plan(settings, store, device_of(device), mem.parse(memory) if memory else None)
    lanes = [len(chunk) for chunk in found.chunks]
    steps = [sum(steps_of(s) for s in chunk) for chunk in found.chunks]
    samples = sum(steps_of(s) * s.batch_size for chunk in found.chunks for s in chunk)
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
        what = f"{s.algorithm}, {s.model}, M={s.clients} S={s.participants} {s.length.replace(' ', '')} R={s.rounds}"
        print(f"  chunk {number}: {count} lanes x {steps_of(s):,} steps = {cost:,}  ({what})")
    print(f"{sum(steps):,} SGD steps over at most {samples:,} samples")
