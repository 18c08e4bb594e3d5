"""`baton run` and `baton sweep`: training."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli.common import (
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
    use_data_dir,
)
from baton.cli.look import as_dict, show

if TYPE_CHECKING:
    from baton.setting import Setting
    from baton.store import Store


def _text(name: str, short: str | None, help: str) -> Any:
    return typer.Option(*filter(None, (f"--{name}", short)), help=help, metavar="NAME", show_default=False)


def _number(name: str, short: str | None, help: str) -> Any:
    return typer.Option(*filter(None, (f"--{name}", short)), help=help, metavar="N", show_default=False)


@app.command()
def run(
    dataset: Annotated[
        str | None, _text("dataset", "-d", "Data set, e.g. digits or quadratic:zeta=1,delta=1/3.")
    ] = None,
    partition: Annotated[
        str | None, _text("partition", "-p", "Who holds which samples, e.g. exdir:C=1,alpha=10.")
    ] = None,
    model: Annotated[str | None, _text("model", "-m", "Model, e.g. mlp:hidden=64.")] = None,
    algorithm: Annotated[
        str | None, _text("algorithm", "-a", "sequential, parallel, ssl:cut=LAYER or splitfed:cut=LAYER.")
    ] = None,
    smash_noise: Annotated[
        float | None, _number("smash-noise", None, "Noise on the smashed data, in split learning [0].")
    ] = None,
    schedule: Annotated[str | None, _text("schedule", None, "shuffled (the paper's) or fixed.")] = None,
    clients: Annotated[int | None, _number("clients", "-M", "M, all clients.")] = None,
    participants: Annotated[int | None, _number("participants", "-S", "S, clients of one round [all].")] = None,
    local_steps: Annotated[int | None, _number("local-steps", "-K", "K, SGD steps of one leg [5].")] = None,
    rounds: Annotated[int | None, _number("rounds", "-R", "R, training rounds [100].")] = None,
    batch_size: Annotated[int | None, _number("batch-size", "-b", "b, samples of one step [20].")] = None,
    sampling: Annotated[str | None, _text("sampling", None, "shuffle or replacement.")] = None,
    lr: Annotated[float | None, _number("lr", None, "eta, the learning rate [0.1].")] = None,
    clip: Annotated[float | None, _number("clip", None, "Largest gradient norm, 0 = no clipping [0].")] = None,
    weight_decay: Annotated[float | None, _number("weight-decay", None, "Added after clipping [0].")] = None,
    seed: Annotated[int | None, _number("seed", None, "Of every draw in the run [1].")] = None,
    eval_every: Annotated[int | None, _number("eval-every", None, "Rounds between evaluations [4].")] = None,
    dtype: Annotated[str | None, _text("dtype", None, "float32 or float64.")] = None,
    data_dir: DataDir = None,
    runs: Runs = Path("runs"),
    device: Device = "auto",
    memory: Memory = None,
    precision: Precision = "auto",
    checkpoint_seconds: Checkpoint = 20.0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one setting. The paper's letters are the short flags."""
    flags = dict(locals())
    use_data_dir(data_dir)
    from baton.algorithms import ALGORITHMS
    from baton.names import extended
    from baton.setting import Setting
    from baton.store import Store

    if smash_noise is not None:
        spec = algorithm or "sequential"
        flags["algorithm"] = extended("algorithm", spec, ALGORITHMS, "smash_noise", smash_noise)
    setting = Setting(**{name: flags[name] for name in Setting.model_fields if flags[name] is not None})
    store = Store(runs)
    train([setting], store, device, memory, quiet or as_json, checkpoint_seconds, precision)
    if as_json:
        print_json(as_dict(store, setting.run_id))
    elif not quiet:
        show(setting.run_id, runs)


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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and what it costs; train nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train every run of a study that is not in the store yet."""
    use_data_dir(data_dir)
    from baton import study as studies
    from baton.store import Store

    wanted, store = studies.read(study, scale).settings, Store(runs)
    if dry_run:
        _print_plan(wanted, store, device, memory, as_json)
        return
    train(wanted, store, device, memory, quiet or as_json, checkpoint_seconds, precision)
    if as_json:
        print_json([as_dict(store, s.run_id) for s in wanted])
    elif not quiet:
        print(f"{len(wanted)} runs of {study} are complete in {runs}; 'baton report {study} --runs {runs}' shows them")


def train(
    settings: "Sequence[Setting]",
    store: "Store",
    device: str,
    memory: str | None,
    quiet: bool,
    checkpoint: float = 20.0,
    precision: str = "auto",
) -> None:
    """Follow a sweep with its progress; stopped, it says how to go on."""
    from baton import memory as mem
    from baton import progress
    from baton.arithmetic import device_of, precision_of
    from baton.sweep import sweep

    on = device_of(device)
    how = precision_of(precision, on)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite stop saves like Ctrl-C
    where = sweep(settings, store, on, mem.parse(memory) if memory else None, checkpoint, how)
    try:
        progress.show(where, quiet)
    except KeyboardInterrupt:
        where.close()
        print(f"baton: stopped; the same command goes on from here ({store.root})", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_plan(settings: "Sequence[Setting]", store: "Store", device: str, memory: str | None, as_json: bool) -> None:
    from baton import memory as mem
    from baton.arithmetic import device_of
    from baton.sweep import plan

    found = plan(settings, store, device_of(device), mem.parse(memory) if memory else None)
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
