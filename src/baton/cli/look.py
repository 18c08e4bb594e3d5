"""`baton list`, `baton show`: what exists and what was trained."""

import json
import re
import sys
from functools import cache
from math import isfinite
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import cuts
from baton.cli.common import Json, Runs, app, print_json
from baton.cli.sites import print_sites, sites_of
from baton.errors import BadInput
from baton.fields import FIELDS

if TYPE_CHECKING:
    from baton.store import Store

TITLES = {"failures": "failures", "on_failure": "policies"}  # rooms whose names are no singulars


@app.command(name="list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="datasets, partitions, models, algorithms, schedules, lr_schedules, failures, policies, metrics, "
            "studies or runs; with what each does."
        ),
    ] = "",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="NAME", help="With models: where this one may be cut.", show_default=False
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", "-d", metavar="NAME", help="With --model: on samples of this.", show_default=False),
    ] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """What names exist, where models may be cut, and what is in the store."""
    if what == "runs":
        _check_models(what, model, dataset)
        _print_runs(runs, as_json)
        return
    from baton import study as studies
    from baton.errors import nearest
    from baton.metrics import METRICS
    from baton.names import columns, says, signature
    from baton.setting import ROOMS

    rooms = {TITLES.get(room, f"{room}s"): known for room, known in ROOMS.items()} | {"metrics": METRICS}
    found: dict[str, list[str]] = {room: [signature(n, f) for n, f in known.items()] for room, known in rooms.items()}
    about = {n: {"says": says(f), "lanes": columns(f)} for n, f in rooms.get(what, {}).items()}
    found["studies"] = studies.shipped()
    if what and what not in found:
        raise BadInput(f"list: no {what!r}; {nearest(what, (*found, 'runs'))}")
    _check_models(what, model, dataset)
    found_cuts = {model: cuts.legal(model, dataset)} if model else cuts.every() if what == "models" else {}
    stored = [] if what else _stored(runs)[0]
    if as_json:
        shown: dict[str, Any] = {key: found[key] for key in found if what in ("", key)}
        shown |= {"about": about} if about else {}
        shown |= {} if what in found else {"runs": stored}
        shown |= {"cuts": {n: [c._asdict() for c in own] for n, (_, own) in found_cuts.items()}} if found_cuts else {}
        print_json(shown)
        return
    for key, names in found.items():
        if what in ("", key) and not model:
            print(f"{key}:", *_lines(names, list(about.values())), sep="\n")
    for name, (shape, own) in found_cuts.items():
        print(*([] if model else [""]), *cuts.lines(name, shape, own), sep="\n")
    if not what:
        print(_counted(runs, stored))


def _check_models(what: str, model: str | None, dataset: str | None) -> None:
    if (model and what != "models") or (dataset and not model):
        raise BadInput(
            "list: --model goes with 'models', and --dataset with --model; 'baton list models -m mlp' is right"
        )


def _print_runs(runs: Path, as_json: bool) -> None:
    stored, faults = _stored(runs)
    if as_json:
        print_json({"runs": stored} | ({"faults": faults} if faults else {}))
        return
    print(_counted(runs, stored))
    line = "  {run}  {state:10}  {algorithm}  {dataset}  {partition}  {model}  lr={lr:g}  seed={seed}"
    print(*(line.format(**entry) for entry in stored), sep="\n")
    for run, fault in faults.items():
        print(f"baton: {run} is left out: {fault}; 'baton repair' moves it aside", file=sys.stderr)


def _counted(runs: Path, stored: list[dict[str, Any]]) -> str:
    return f"runs in {runs}: {len(stored)}, {sum(run['complete'] for run in stored)} complete"


def _stored(runs: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What the index says of every run, and what is wrong with those that cannot be read.

    torch is loaded only where a run's files have to be read, or runs are in flight.
    """
    from baton.fields import Fields
    from baton.index import Index, check

    check(runs)
    index = Index(runs, lambda run, stamp: _store(runs).entry(run, stamp))
    entries = index.entries()
    texts = {run: entry.setting for run, entry in entries.items() if not entry.fault}
    flying = _store(runs).pool.in_flight() if any((runs / ".work" / "chunks").glob("[!.]*")) else {}
    texts |= {run: chunk.laid.settings[lane] for run, (chunk, lane) in flying.items() if run not in entries}
    stored = []
    for run in sorted(texts):
        fields = json.loads(texts[run])
        known = {name: fields.get(name, getattr(Fields, name)) for name in FIELDS}
        complete = run in entries and bool(entries[run].complete)
        diverged = json.loads(entries[run].about)["diverged"] if complete else None
        state = "diverged" if diverged is not None else _state(complete, None)
        stored.append({"run": run, "complete": complete, "diverged": diverged, "state": state, **known})
    return stored, {run: entry.fault for run, entry in entries.items() if entry.fault}


@cache
def _store(runs: Path) -> "Store":
    from baton.store import Store

    return Store(runs)


def _lines(names: list[str], about: list[dict[str, Any]]) -> list[str]:
    """Names with their options, each with what it does where that is known, in lines that fit."""
    width = max(40, min(120, get_terminal_size((80, 24)).columns))
    lines = list[str]()
    for name, more in zip(names, about or [{}] * len(names), strict=True):
        line = "  "
        for part in re.findall("[^,]+,?", name):  # broken at commas: there are no blanks
            if len(line) + len(part) > width:
                lines.append(line)
                line = "    "
            line += part
        lines.append(line)
        lanes = f"Lanes: {', '.join(more['lanes'])}." if more.get("lanes") else ""
        lines += wrap(f"{more.get('says', '')} {lanes}", width, initial_indent=" " * 6, subsequent_indent=" " * 6)
    if any(more["lanes"] for more in about):
        lines.append("Runs that differ in lanes alone train together.")
    return lines


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
        print_json(as_dict(store, store.find(run)))
    else:
        show(run, runs)


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
    for line in _past(store, run_id):
        console.print(line, highlight=False, markup=False)
    fields = found.setting.model_dump()
    console.print("  ".join(f"{name}={value}" for name, value in fields.items()), highlight=False, markup=False)
    names = [name for name, values in found.metrics.items() if (values == values).any() or name == "round"]
    names = [name for name in names if not name.startswith(("site_", "class_"))]  # in tables of their own
    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(name.replace("_", " "), overflow="fold")
    for i in range(len(found.metrics["round"]))[-10:]:
        values = [found.metrics[name][i] for name in names]
        table.add_row(
            *(
                "" if v != v and values[0] != found.diverged else f"{v:.0f}" if name.startswith("bytes") else f"{v:.6g}"
                for name, v in zip(names, values, strict=True)
            )
        )
    console.print(table)
    print_sites(store, run_id)


def _past(store: "Store", run_id: str) -> list[str]:
    """What a run was made of, and what made it, as far as that is known."""
    from baton.store.journal import entries

    found = store.read(run_id)
    parts = [f"data {found.setting.made_of.data}"] if found.setting.made_of.data else []
    parts += [f"code of {module} {told}" for module, told in found.setting.made_of.code.items()]
    lines = [f"made of: {', '.join(parts)}"] if parts else []
    lines += [f"computed: {_listed(found.how)}"] if found.how else []
    for entry in entries(store.root):
        if run_id in entry["runs"]:
            how = {key: x for key, x in entry.get("how", {}).items() if key in ("host", "threads", "python")}
            lines.append(f"trained: {entry.get('seconds', '?')} s until {entry.get('ended', '?')}, {_listed(how)}")
    return lines


def _listed(facts: dict[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in facts.items())


def _state(complete: bool, diverged: int | None) -> str:
    if diverged is not None:
        return f"diverged at round {diverged}"
    return "complete" if complete else "unfinished"


def as_dict(store: "Store", run_id: str) -> dict[str, Any]:
    """A run for scripts; what was not measured, or is not finite, is null."""
    found = store.read(run_id)
    metrics = {name: [v if isfinite(v) else None for v in values.tolist()] for name, values in found.metrics.items()}
    return {
        "run": run_id,
        "complete": found.complete,
        "diverged": found.diverged,
        "setting": found.setting.model_dump(),
        "made_of": found.setting.made_of._asdict(),
        "how": found.how,
        "metrics": metrics,
    } | sites_of(store, run_id)
