"""`baton data`: which data sets are there, downloading and checking them."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli.common import DataDir, Json, Quiet, app, print_json, use_data_dir
from baton.cli.help import App

if TYPE_CHECKING:
    from baton.datasets.find import Found

data = App(help="Data sets that come as files: what is there, downloading, checking.")
app.add_typer(data, name="data")

Name = Annotated[str, typer.Argument(metavar="NAME", help="mnist, fashion_mnist, cifar10 or cinic10.")]


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
def check(name: Name, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Read every file of a data set: is it whole, and is it the official one? Exit code 2 if it is broken."""
    use_data_dir(data_dir)
    from baton.datasets.check import check as verdict

    found = verdict(name)
    if as_json:
        print_json(found._asdict() | {"folder": str(found.folder)})
        return
    images = f"{found.train:,} training and {found.test:,} test images"
    print(f"{name}: {found.state}; {images} in {found.folder} ({found.format})")
