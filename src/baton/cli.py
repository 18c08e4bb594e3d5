"""The command line. Heavy imports wait inside the commands, so that --help answers at once."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton import __version__
from baton.errors import BadInput

if TYPE_CHECKING:
    from baton.setting import Setting
    from baton.store import Store

app = typer.Typer(
    help="Train one model over data that stays at many clients, and compare the ways of passing it around.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="The store of runs.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to train.")]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Memory to use, e.g. 2GB [default: half of what is free].")
]
Checkpoint = Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="Between checkpoints.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
StudyName = Annotated[str, typer.Argument(metavar="STUDY.toml", help="A study file, or the name of a shipped one.")]


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
        str | None, _text("algorithm", "-a", "sequential, parallel or parallel:weighting=size.")
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
    runs: Runs = Path("runs"),
    device: Device = "auto",
    memory: Memory = None,
    checkpoint_seconds: Checkpoint = 20.0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train one setting. The paper's letters are the short flags."""
    flags = dict(locals())
    from baton.setting import Setting
    from baton.store import Store

    setting = Setting(**{name: flags[name] for name in Setting.model_fields if flags[name] is not None})
    store = Store(runs)
    _train([setting], store, device, memory, quiet or as_json, checkpoint_seconds)
    if as_json:
        _print_json(_as_dict(store, setting.run_id))
    elif not quiet:
        show(setting.run_id, runs)


@app.command()
def sweep(
    study: StudyName,
    runs: Runs = Path("runs"),
    device: Device = "auto",
    memory: Memory = None,
    checkpoint_seconds: Checkpoint = 20.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run and what it costs; train nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train every run of a study that is not in the store yet."""
    from baton import study as studies
    from baton.store import Store

    wanted, store = studies.read(study).settings, Store(runs)
    if dry_run:
        _print_plan(wanted, store, device, memory, as_json)
        return
    _train(wanted, store, device, memory, quiet or as_json, checkpoint_seconds)
    if as_json:
        _print_json([_as_dict(store, s.run_id) for s in wanted])
    elif not quiet:
        print(f"{len(wanted)} runs of {study} are complete in {runs}; 'baton report {study} --runs {runs}' shows them")


@app.command(name="list")
def list_(
    what: Annotated[
        str, typer.Argument(help="datasets, partitions, models, algorithms, schedules, studies or runs.")
    ] = "",
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """What names exist, and what is in the store."""
    from baton import study as studies
    from baton.errors import nearest
    from baton.names import signature
    from baton.setting import ROOMS
    from baton.store import Store

    found: dict[str, list[str]] = {
        f"{room}s": [signature(n, f) for n, f in known.items()] for room, known in ROOMS.items()
    }
    found["studies"] = studies.shipped()
    store = Store(runs)
    if what and what not in (*found, "runs"):
        raise BadInput(f"list: no {what!r}; {nearest(what, (*found, 'runs'))}")
    stored = [_summary(store, run) for run in store.ids()] if what in ("", "runs") else []
    if as_json:
        _print_json(
            {key: found[key] for key in found if what in ("", key)} | ({} if what in found else {"runs": stored})
        )
        return
    for key, names in found.items():
        if what in ("", key):
            print(f"{key}:", *names, sep="\n  ")
    if what in ("", "runs"):
        print(f"runs in {runs}: {len(stored)}, {sum(run['complete'] for run in stored)} complete")
        for entry in stored if what else []:
            print(
                "  {run}  {state:9}  {algorithm}  {dataset}  {partition}  {model}  lr={lr:g}  seed={seed}".format(
                    **entry
                )
            )


@app.command(name="show")
def show_(
    run: Annotated[str, typer.Argument(help="A run id, or enough of its beginning.")],
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """One stored run: its setting and its last evaluations."""
    if as_json:
        from baton.store import Store

        store = Store(runs)
        _print_json(_as_dict(store, store.find(run)))
    else:
        show(run, runs)


@app.command()
def report(
    study: StudyName,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the page and its files go.")] = Path(
        "report"
    ),
    runs: Runs = Path("runs"),
) -> None:
    """Figures, tables and a page of a study, from the store."""
    from baton import report as reports
    from baton import study as studies
    from baton.store import Store

    print(reports.report([studies.read(study)], Store(runs), out))


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs and page go.")] = Path("demo"),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Sequential against parallel on quadratics and handwritten digits: two minutes, then a page to look at."""
    from baton import report as reports
    from baton import study as studies
    from baton.store import Store

    store, shown = Store(out / "runs"), [studies.read(name) for name in ("quadratics", "digits")]
    for study in shown:
        if not quiet:
            print(f"{study.title}: {len(study.settings)} runs", flush=True)
        _train(study.settings, store, device, None, quiet)
    print(f"open {reports.report(shown, store, out)}")


def _train(
    settings: "Sequence[Setting]",
    store: "Store",
    device: str,
    memory: str | None,
    quiet: bool,
    checkpoint: float = 20.0,
) -> None:
    from baton import memory as mem
    from baton import progress
    from baton.sweep import device_of, sweep

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite stop saves like Ctrl-C
    where = sweep(settings, store, device_of(device), mem.parse(memory) if memory else None, checkpoint)
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
    from baton.sweep import device_of, plan

    found = plan(settings, store, device_of(device), mem.parse(memory) if memory else None)
    lanes = [len(chunk) for chunk in found.chunks]
    steps = [sum(s.steps for s in chunk) for chunk in found.chunks]
    samples = sum(s.steps * s.batch_size for chunk in found.chunks for s in chunk)
    if as_json:
        counts = {"runs": len(settings), "complete": found.done, "programs": found.programs, "chunks": len(lanes)}
        _print_json(counts | {"lanes": lanes, "steps": sum(steps), "samples": samples, "memory": found.memory})
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


def show(run: str, runs: Path) -> None:
    """The setting and the last evaluations as tables."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from baton.store import Store

    store = Store(runs)
    run_id = store.find(run)
    found = store.read(run_id)
    console = Console(soft_wrap=True)
    state = _state(found.complete, found.diverged)
    console.print(f"run {run_id}: {state}", highlight=False)
    fields = found.setting.model_dump()
    console.print("  ".join(f"{name}={value}" for name, value in fields.items()), highlight=False, markup=False)
    names = [name for name, values in found.metrics.items() if (values == values).any() or name == "round"]
    table = Table(*names, box=box.SIMPLE_HEAD)
    for i in range(len(found.metrics["round"]))[-10:]:
        values = [found.metrics[name][i] for name in names]
        table.add_row(*("" if v != v and values[0] != found.diverged else f"{v:.6g}" for v in values))
    console.print(table)


def _state(complete: bool, diverged: int | None) -> str:
    if diverged is not None:
        return f"diverged at round {diverged}"
    return "complete" if complete else "unfinished"


def _summary(store: "Store", run_id: str) -> dict[str, Any]:
    found = store.read(run_id)
    fields = found.setting.model_dump()
    state = "diverged" if found.diverged is not None else _state(found.complete, None)
    return {"run": run_id, "complete": found.complete, "diverged": found.diverged, "state": state, **fields}


def _as_dict(store: "Store", run_id: str) -> dict[str, Any]:
    """A run for scripts; what was not measured is null."""
    found = store.read(run_id)
    metrics = {name: [v if v == v else None for v in values.tolist()] for name, values in found.metrics.items()}
    return {
        "run": run_id,
        "complete": found.complete,
        "diverged": found.diverged,
        "setting": found.setting.model_dump(),
        "metrics": metrics,
    }


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=1))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"baton {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Bad input: one line, exit code 2. Interrupted: 130."""
    try:
        app()
    except BadInput as error:
        print(f"baton: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # `baton list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
