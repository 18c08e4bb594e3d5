"""`baton data`: which data sets are there, downloading and checking them."""

import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli.common import DataDir, Json, Quiet, app, print_json, use_data_dir
from baton.cli.help import App
from baton.shown import print

if TYPE_CHECKING:
    from baton.datasets.check import Summary
    from baton.datasets.find import Found

data = App(help="Data sets that come as files: what is there, downloading, checking.")
app.add_typer(data, name="data")

WIDTH = 80  # of a terminal

Name = Annotated[str, typer.Argument(metavar="NAME", help="mnist, fashion_mnist, cifar10, cinic10 or heart.")]
Any_ = Annotated[
    str, typer.Argument(metavar="NAME", help="mnist, ..., or any data set: csv:PATH,label=COLUMN,site=COLUMN.")
]


@data.command(name="list")
def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """What is found where."""
    use_data_dir(data_dir)
    from baton.datasets import find

    rows = [_row(name, find.look(name)) for name in find.LAYOUTS]
    if as_json:
        print_json({"looked in": [str(root) for root in find.roots()], "datasets": rows})
        return
    print("looked in " + ", ".join(str(root) for root in find.roots()))
    for row in rows:
        lacks = f"lacks {', '.join(row['missing'])}"
        state = (
            "complete" if row["complete"] else lacks if row["path"] else f"not found; 'baton data get {row['name']}'"
        )
        print("  ".join(filter(None, (f"{row['name']:13}", state, row["format"], row["path"]))))
    print("always there: digits, breast_cancer")
    print("of your own:  csv:PATH,label=COLUMN,site=COLUMN, npz:PATH, npy:PATH, images:FOLDER")


def _row(name: str, found: "Found | None") -> dict[str, Any]:
    if found is None:
        return {"name": name, "path": None, "format": None, "complete": False, "missing": []}
    missing = list(found.missing)
    return {
        "name": name,
        "path": str(found.folder),
        "format": found.format,
        "complete": not missing,
        "missing": missing,
    }


@data.command()
def get(name: Name, data_dir: DataDir = None, quiet: Quiet = False) -> None:
    """Download a data set over HTTPS and verify its checksums; stopped, the same command goes on."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from baton.datasets import fetch, find

    name = find.spelled(name)
    root = data_dir or find.roots()[0]
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(file=sys.stderr), disable=quiet)
    tasks: dict[str, Any] = {}

    def report(file: str, done: int, total: int) -> None:
        if file not in tasks:
            progress.start()
            tasks[file] = progress.add_task(file, total=None)
        progress.update(tasks[file], completed=done, total=total or None)

    try:
        folder = fetch.get(name, root, report)
    finally:
        if tasks:
            progress.stop()
    if not quiet:
        print(f"{name}: in {folder}")


@data.command()
def check(name: Any_, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Read every file of a data set: is it whole, and is it the official one? Exit code 2 if it is broken.

    Of a table or arrays of your own: what they are taken for, who holds how much, and what you should know.
    """
    use_data_dir(data_dir)
    from baton.datasets import DATASETS
    from baton.datasets.check import check as verdict
    from baton.datasets.check import summary
    from baton.datasets.find import LAYOUTS, spelled

    name = spelled(name)
    if name not in LAYOUTS and (":" in name or "." in name or name in DATASETS):
        _print_summary(summary(name), as_json)
        return
    found = verdict(name)
    if as_json:
        print_json(found._asdict() | {"folder": str(found.folder)})
        return
    held = f"{found.train:,} training and {found.test:,} test {found.what}"
    print(f"{name}: {found.state}; {held} in {found.folder} ({found.format})")


def _print_summary(found: "Summary", as_json: bool) -> None:
    if as_json:
        print_json(found._asdict())
        return
    told = f"{found.classes} classes" if found.classes else "a number to tell"
    print(f"{found.spec}: samples of {' x '.join(map(str, found.shape))}, {told}")
    for note in found.notes:
        print(*wrap(note, WIDTH, initial_indent="  ", subsequent_indent="    "), sep="\n")
    wide = max(len("site"), *(len(name) for name in found.sites))
    print(f"\n{'site':{wide}}  {'training':>10}  {'test':>10}")
    for name, (train, test) in sorted(found.sites.items(), key=lambda row: row[0] == "all"):
        print(f"{name:{wide}}  {train:>10,}  {test:>10,}")
