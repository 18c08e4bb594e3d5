"""`baton verify`, `baton repair` and `baton rm`: keeping a store in order."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from baton.cli.common import Json, Runs, app, print_json
from baton.errors import BadInput
from baton.notice import many
from baton.shown import print

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def verify(runs: Runs = Path("runs"), as_json: Json = False) -> None:
    """Check every file of the store against its checksum; exit code 1 where any is not what was written."""
    from baton.store import Store
    from baton.store import upkeep as keep

    found = keep.verify(Store(runs))
    if as_json:
        faults = {str(fault.path): fault.what for fault in found.faults}
        orphans = [str(path) for path in found.orphans]
        counts = {"files": found.files, "unchecked": found.unchecked}
        print_json({**counts, "faults": faults, "orphans": orphans})
    else:
        for fault in found.faults:
            print(f"{fault.path}: {fault.what}")
        print(f"{found.files:,} files in {runs}: {_counted(len(found.faults), 'fault')}")
        if found.unchecked:
            print(f"{found.unchecked:,} of them were written before there were checksums, and could only be read")
        if found.orphans:
            print(f"{_counted(len(found.orphans), 'file or folder', 'files or folders')} left by processes that ended")
        if found.faults or found.orphans:
            print(f"'baton repair --runs {runs}' moves faults aside and cleans up the rest")
    if found.faults:
        raise typer.Exit(1)


@app.command()
def repair(runs: Runs = Path("runs"), yes: Yes = False) -> None:
    """Move what is damaged to .aside, clean up what nobody needs, and make the index anew."""
    from baton.store import Store
    from baton.store import upkeep as keep

    store = Store(runs)
    found = keep.verify(store)
    for fault in found.faults:
        print(f"{fault.path}: {fault.what}")
    moved = [fault for fault in found.faults if not fault.stays]
    if moved and _sure(f"move aside {_counted(len(moved), 'fault')}", yes):
        for fault in moved:
            print(keep.aside(store, fault))
    if found.orphans:
        for path in found.orphans:
            print(f"{path}: left by a process that ended")
        if _sure(f"delete {_counted(len(found.orphans), 'file or folder', 'files or folders')}", yes):
            for path in found.orphans:
                keep.clean(path)
    store.reindex()
    print(f"{_counted(len(found.faults), 'fault')} in {runs}; the same command that trained a run trains it again")


@app.command(name="rm")
def remove(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run ids, or enough of their beginnings.")],
    runs: Runs = Path("runs"),
    yes: Yes = False,
) -> None:
    """Delete runs from the store."""
    from baton.store import Store
    from baton.store import upkeep as keep

    store = Store(runs)
    ids = list(dict.fromkeys(store.find(prefix) for prefix in run))
    if not _sure(f"delete {_counted(len(ids), 'run')} from {runs}: {', '.join(ids)}", yes):
        return
    places = keep.forget(store, ids, "removed")
    for place in places:
        keep.clean(place)
    left = [one for one in ids if one in store.pool.in_flight()]
    if left:
        raise BadInput(f"rm: {', '.join(left)} train together with others; give those too, or finish them first")
    print(f"{_counted(len(ids), 'run')} deleted")


def _counted(count: int, one: str, more: str = "") -> str:
    return many(count, one, more) if count else f"no {more or one + 's'}"


def _sure(what: str, yes: bool) -> bool:
    """Whether it may be done: it was said already, or is said now."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise BadInput(f"to {what}, --yes is right where nobody can be asked")
    return typer.confirm(f"{what[0].upper()}{what[1:]}?")
