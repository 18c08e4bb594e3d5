"""`baton report` and `baton demo`: pages."""

from pathlib import Path
from typing import Annotated

import typer

from baton.cli.common import Device, Quiet, Runs, StudyName, app
from baton.cli.train import train


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
    """Sequential against parallel on quadratics and handwritten digits: about a minute, then a page to look at."""
    from baton import report as reports
    from baton import study as studies
    from baton.store import Store

    store, shown = Store(out / "runs"), [studies.read(name) for name in ("quadratics", "digits")]
    for study in shown:
        if not quiet:
            print(f"{study.title}: {len(study.settings)} runs", flush=True)
        train(study.settings, store, device, None, quiet)
    print(f"open {reports.report(shown, store, out)}")
