"""`baton list`, `baton show`: what exists and what was trained."""

import re
from math import isfinite
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import complete, cuts, privacy, table
from baton.cli.common import Json, Runs, app, print_json
from baton.cli.complete import TITLES
from baton.cli.sites import print_sites, sites_of
from baton.cli.stored import EARLIER, counted, print_runs, stored
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.store import Store
    from baton.store.runs import Earlier


@app.command(name="list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="datasets, partitions, models, algorithms, schedules, lr_schedules, failures, policies, dp, metrics, "
            "studies or runs; with what each does.",
            autocompletion=complete.a_thing,
        ),
    ] = "",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="With models: where this one may be cut. With runs: those of this.",
            show_default=False,
            autocompletion=complete.of("model"),
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            "-d",
            metavar="NAME",
            help="With runs: those on this. With --model: cuts for its samples.",
            show_default=False,
            autocompletion=complete.of("dataset"),
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            metavar="NAME",
            help="With runs: those trained by this.",
            show_default=False,
            autocompletion=complete.of("algorithm"),
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="FIELD=VALUE",
            help="With runs: those that have this, such as M=10 or state=diverged; may be given again.",
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="FIELD", help="With runs: by a field, or by result, the best first.")
    ] = "",
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """What names exist, where models may be cut, and what is in the store."""
    if what == "runs":
        if model:
            where = [*(where or []), f"model={model}"]
        given = {"dataset": dataset, "algorithm": algorithm}
        named = [f"{name}={x}" for name, x in given.items() if x]
        print_runs(runs, [*named, *(where or [])], sort, as_json)
        return
    if algorithm or where or sort:
        raise BadInput("list: --algorithm, --where and --sort go with 'runs'; 'baton list runs --sort result' is right")
    from baton import study as studies
    from baton import synonyms
    from baton.errors import nearest
    from baton.metrics import METRICS
    from baton.names import columns, says, signature
    from baton.setting import ROOMS

    rooms = {TITLES.get(room, f"{room}s"): known for room, known in ROOMS.items()} | {"metrics": METRICS}
    found: dict[str, list[str]] = {room: [signature(n, f) for n, f in known.items()] for room, known in rooms.items()}
    fields = {TITLES.get(field, f"{field}s"): field for field in ROOMS} | {"metrics": "metrics"}
    about = {
        n: {"says": says(f), "lanes": columns(f), "also": synonyms.also_called(fields[what], n)}
        for n, f in rooms.get(what, {}).items()
    }
    found["studies"] = studies.shipped()
    if what == "studies":
        about = {name: {"says": studies.says(name), "lanes": [], "also": []} for name in found["studies"]}
    if what and what not in found:
        raise BadInput(f"list: no {what!r}; {nearest(what, (*found, 'runs'))}")
    _check_models(what, model, dataset)
    found_cuts = {model: cuts.legal(model, dataset)} if model else cuts.every() if what == "models" else {}
    in_store = [] if what else stored(runs).runs
    if as_json:
        shown: dict[str, Any] = {key: found[key] for key in found if what in ("", key)}
        shown |= {"about": about} if about else {}
        shown |= {} if what in found else {"runs": in_store}
        shown |= {"cuts": {n: [c._asdict() for c in own] for n, (_, own) in found_cuts.items()}} if found_cuts else {}
        print_json(shown)
        return
    for key, names in found.items():
        if what in ("", key) and not model:
            print(f"{key}:", *_lines(names, list(about.values())), sep="\n")
    for name, (shape, own) in found_cuts.items():
        print(*([] if model else [""]), *cuts.lines(name, shape, own), sep="\n")
    if not what:
        print(counted(runs, in_store))


def _check_models(what: str, model: str | None, dataset: str | None) -> None:
    if (model and what != "models") or (dataset and not model):
        raise BadInput(
            "list: --model goes with 'models', and --dataset with --model; 'baton list models -m mlp' is right"
        )


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
        also = f"Also: {', '.join(more['also'])}." if more.get("also") else ""
        lines += wrap(
            f"{more.get('says', '')} {also} {lanes}", width, initial_indent=" " * 6, subsequent_indent=" " * 6
        )
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
        run_id = store.find(run)
        old = store.read_earlier(run_id)
        print_json({**old._asdict(), "state": EARLIER} if old else as_dict(store, run_id))
    else:
        show(run, runs)


def show(run: str, runs: Path) -> None:
    """The setting in words and the last evaluations as a table, as wide as the terminal."""
    from baton.cli import evaluations, words
    from baton.store import Store

    store, room = Store(runs), table.width()
    run_id = store.find(run)
    if old := store.read_earlier(run_id):
        print(*_earlier(old), sep="\n")
        return
    found = store.read(run_id)
    print(f"run {run_id}: {_state(found.complete, found.diverged)}\n")
    print(*words.about(found.setting, room), sep="\n")
    for title, text in _past(store, run_id):
        print(*words.titled(title, text, room), sep="\n")
    print()
    print(*evaluations.lines(found, room), sep="\n")
    print_sites(store, run_id)


def _earlier(run: "Earlier") -> list[str]:
    """Return the lines on a run of an earlier format: its setting and last evaluation, as they were written."""
    fields = {name: str(x) for name, x in sorted(run.setting.items())}
    ends = {name: f"{x:.6g}" for name, x in run.ends.items()}
    width = max(map(len, (*fields, *ends)))
    lines = [f"run {run.run}: {EARLIER}; it is kept, and never reused, compared or reported", ""]
    lines += [f"  {name:<{width}}  {x}" for name, x in fields.items()]
    return lines + (["", "last evaluation", *(f"  {name:<{width}}  {x}" for name, x in ends.items())] if ends else [])


def _past(store: "Store", run_id: str) -> list[tuple[str, str]]:
    """What a run was made of, and what made it, as far as that is known."""
    from baton.store.journal import entries

    found = store.read(run_id)
    parts = [f"data {found.setting.made_of.data}"] if found.setting.made_of.data else []
    parts += [f"code of {module} {told}" for module, told in found.setting.made_of.code.items()]
    lines = [("made of", ", ".join(parts))] if parts else []
    lines += privacy.line(found.setting)
    lines += [("computed", _listed(found.how))] if found.how else []
    for entry in entries(store.root):
        if run_id in entry["runs"]:
            how = {key: x for key, x in entry.get("how", {}).items() if key in ("host", "threads", "python")}
            lines.append(("trained", f"{entry.get('seconds', '?')} s until {entry.get('ended', '?')}, {_listed(how)}"))
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
