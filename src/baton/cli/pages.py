"""`baton report`, `baton watch` and `baton demo`: pages."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from baton.cli import flags
from baton.cli.common import Device, Method, Quiet, Runs, Scale, app, reading, told
from baton.cli.hops import hops_shown
from baton.cli.train import train
from baton.shown import print

if TYPE_CHECKING:
    from baton.store import Store
    from baton.study import Study

Studies = Annotated[
    list[str], typer.Argument(metavar="STUDY.toml...", help="Study files, or the names of shipped ones.")
]


@app.command()
def report(
    study: Studies,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the page and its files go.")] = Path(
        "report"
    ),
    runs: Runs = Path("runs"),
    scale: Scale = 1.0,
    method: Method = "",
    overlay: Annotated[
        bool, typer.Option("--overlay", help="With what the theorems promise; for studies of quadratics.")
    ] = False,
    client_flops: flags.ClientFlops = 5e9,
    server_flops: flags.ServerFlops = 1e12,
    up: flags.Up = 10.0,
    down: flags.Down = 50.0,
    latency: flags.Latency = 0.03,
) -> None:
    """Figures, tables and a page of studies, from the store."""
    reading(runs)
    rates = flags.rates(dict(locals()))
    from baton import report as reports
    from baton import study as studies
    from baton.simulate import answers
    from baton.store import Store

    shown = [studies.read(name, scale, method) for name in study]
    store = Store(runs)
    hops = partial(hops_shown, store=store)
    print(reports.report(shown, store, out, overlay, rates, told(False), hops, answers.source(store)))


@app.command()
def watch(
    study: Studies,
    runs: Runs = Path("runs"),
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Of the page; 0 takes any free one.")
    ] = 8642,
    scale: Scale = 1.0,
    method: Method = "",
) -> None:
    """The report as a live page on this machine, while training goes on."""
    reading(runs)
    from baton import study as studies
    from baton.store import Store

    serve([studies.read(name, scale, method) for name in study], Store(runs), port, ", ".join(study))


def serve(studies: "list[Study]", store: "Store", port: int, called: str) -> None:
    """Their page, live, until Ctrl-C."""
    from baton import watch as live

    with live.server(studies, store, port) as server:
        print(f"{server.address} shows {called} as it trains; Ctrl-C ends it", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            raise SystemExit(130) from None


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs and page go.")] = Path("demo"),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Sequential against parallel on quadratics and handwritten digits: about a minute, then a page to look at."""
    from baton import report as reports
    from baton import study as studies
    from baton.simulate import answers
    from baton.store import Store

    store, shown = Store(out / "runs"), [studies.read(name) for name in ("quadratics", "digits")]
    for study in shown:
        if not quiet:
            print(f"{study.title}: {len(study.settings)} runs", flush=True)
        train(study.settings, store, device, None, quiet)
    print(f"open {reports.report(shown, store, out, answers=answers.source(store))}")
