"""`baton tune`: grid searches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli.common import (
    Anyway,
    Checkpoint,
    Cores,
    DataDir,
    Devices,
    Hush,
    Json,
    Memory,
    Method,
    On,
    Parts,
    Precision,
    Runs,
    Scale,
    StudyName,
    app,
    print_json,
    shown_by,
    use_data_dir,
)
from baton.cli.train import train
from baton.crew import where
from baton.notice import many
from baton.shown import print

if TYPE_CHECKING:
    from baton.search.rules import Choice
    from baton.study import Study


@app.command()
def tune(
    study: StudyName,
    method: Method = "",
    scale: Scale = 1.0,
    data_dir: DataDir = None,
    runs: Runs = Path("runs"),
    device: Devices = "auto",
    memory: Memory = None,
    precision: Precision = "auto",
    checkpoint_seconds: Checkpoint = 20.0,
    anyway: Anyway = False,
    on: On = "",
    parts: Parts = 0,
    cores: Cores = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what the store says so far and what comes next; train nothing.")
    ] = False,
    quiet: Hush = False,
    as_json: Json = False,
) -> None:
    """Search the best learning rate (or clip) of every setting with one seed, then train the winners on all seeds."""
    use_data_dir(data_dir)
    import json

    from baton import search
    from baton import study as studies
    from baton.crew.on_ray import held
    from baton.store import Store
    from baton.study import measured

    place = where(on, parts, cores)
    wanted, store = studies.read(study, scale, method), Store(runs)
    measured.check(wanted.report, [] if dry_run else wanted.settings, load=True)
    found = search.choices(wanted, store)
    with held():
        while (todo := search.missing(found, store)) and not dry_run:
            if not quiet and not as_json:
                print(_next(todo), flush=True)
            train(todo, store, device, memory, quiet or as_json, checkpoint_seconds, precision, anyway, place)
            found = search.choices(wanted, store)
    path = None if dry_run else search.save(wanted, store, found)
    if as_json and path:
        print_json(json.loads(path.read_text()))
    elif not as_json:
        _print(wanted, found)
        print(_next(todo) if todo else "nothing is left to train")
        if path:
            print(f"stored in {path}\nnext: {shown_by(study, runs, scale, method)}")


def _next(todo: list[Any]) -> str:
    lengths = sorted({s.rounds for s in todo})
    rounds = " or ".join(f"{length:,}" for length in lengths)
    return f"next: {many(len(todo), 'run')} of {rounds} {'round' if lengths == [1] else 'rounds'}"


def _print(study: "Study", found: "list[Choice]") -> None:
    """Cell by cell: what every candidate scored, what was kept and why."""
    from baton.report.search import doubts
    from baton.report.words import told
    from baton.search.rules import on_test_set

    fields = [field for field in found[0].cell.fields if len({str(c.cell.fields[field]) for c in found}) > 1]
    for choice in found:
        where = ", ".join([choice.cell.group, *told(study, {f: choice.cell.fields[f] for f in fields})])
        print(where)
        for stage in choice.stages:
            if stage.scores:
                print(f"  {stage.rounds:>6,} rounds  " + "  ".join(_score(name, stage) for name in stage.scores))
            print(f"         kept: {'; '.join(stage.kept) or 'none'} ({stage.why})")
        for doubt in doubts(study, choice):
            print(f"         note: {doubt}")
        for s in choice.missing[:1]:
            print(f"  waits for {many(len(choice.missing), 'run')} of {many(s.rounds, 'round')}")
    if on_test_set(study):
        print("chosen on the test set, as [tune] on = 'test' says")
    spent, full = sum(c.spent for c in found), sum(c.full for c in found)
    so_far = " so far" if any(c.missing for c in found) else ""
    print(f"searched with {spent:,} SGD steps{so_far}, {100 * spent / full:.0f}% of the whole grid's {full:,}")


def _score(name: str, stage: Any) -> str:
    score = stage.scores[name]
    text = "diverged" if score is None else f"{score:.2f}"
    return f"{name}: {text}{'*' if name in stage.kept else ''}"
