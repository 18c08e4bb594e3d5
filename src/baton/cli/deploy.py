"""`baton deploy` and `baton site`: the same algorithms over real sites."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import privacy
from baton.cli.common import Json, Runs, app, print_json
from baton.cli.help import App
from baton.cli.pages import serve
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.deploy.plan import Plan
    from baton.study import Study

deploy = App(help="Train over real sites (NVIDIA FLARE): plan, start, status, watch, stop.")
site = App(help="Take part in a federation with data of your own.")
app.add_typer(deploy, name="deploy")
app.add_typer(site, name="site")

Fed = Annotated[Path, typer.Argument(metavar="FED.toml", help="The federation's plan, or the folder made from it.")]


def say(line: str) -> None:
    """For people, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def _folder(fed: Path) -> Path:
    """Where a plan's things are: a folder of the federation's name beside its file."""
    if fed.is_dir():
        return fed
    from baton.deploy import plan

    return fed.parent / plan.name_of(fed)


def _check_unchanged(fed: Path, folder: Path) -> None:
    """Raise BadInput where a plan's file says something else than when it was planned."""
    if not fed.is_dir():
        from baton.deploy import plan

        plan.check_unchanged(fed, plan.load(folder))


@deploy.command("plan")
def plan_(
    fed: Annotated[Path, typer.Argument(metavar="FED.toml", help="Sites, data, run: see docs/deploy.md.")],
    of: Annotated[str, typer.Option("--from", metavar="RUN", help="Take a simulated run's setting.")] = "",
    runs: Runs = Path("runs"),
) -> None:
    """Check a plan, make the kits with their certificates, say who gets what."""
    from baton.deploy import plan
    from baton.deploy.coordinator import possible
    from baton.deploy.flare import kits
    from baton.store import Store

    store = Store(runs) if of else None
    taken = store.read(store.find(of)).setting if store else None
    found = plan.read(fed, taken)
    for setting in found.runs:
        possible(setting)
    folder = fed.parent / found.name
    kits.needed()
    _same_sites(folder, found)
    kits.provision(found, folder)
    found.save(folder)
    for s in found.runs:
        counts = f"M={s.clients} S={s.participants} {s.length.replace(' ', '')} R={s.rounds}"
        print(f"federation {found.name}: {s.algorithm}, {s.model}, {counts}, run {s.run_id}")
        if s.dp != "none":
            print(*(f"privacy: {text}" for _, text in privacy.line(s)), sep="\n")
    print(f"kits in {folder / 'kits'}, with certificates that end in {kits.LAST} days; each is its owner's secret:")
    print(f"  {found.server}: stays here; it takes connections on TCP port {found.port}")
    for member in found.sites:
        print(f"  {member.name}: to {member.org}, by a safe way; their firewall lets out {found.server}:{found.port}")
    print("at a site:   pip install 'baton-fl[deploy]'; baton site start KIT --data FILE.csv")
    print(f"at the server: baton deploy start {fed}")


def _same_sites(folder: Path, found: "Plan") -> None:
    """Certificates are made once: another set of sites is another federation."""
    from baton.deploy import plan

    if not (folder / "plan.json").exists():
        return
    before = plan.load(folder)
    if (before.sites, before.server, before.port, before.data) != (found.sites, found.server, found.port, found.data):
        raise BadInput(f"federation: {str(folder)!r} has kits of other sites, server or data; another name is right")


@deploy.command()
def start(
    fed: Fed, keep: Annotated[bool, typer.Option("--keep", help="Leave the server up at the end.")] = False
) -> None:
    """Train; stopped or killed at any moment, the same command goes on."""
    from baton.deploy.flare.supervise import Supervisor, stop

    folder, code = _folder(fed), 0
    _check_unchanged(fed, folder)
    supervisor = Supervisor(folder, say)
    for number in (signal.SIGTERM, signal.SIGHUP):  # as a service manager and a closed terminal end it: as Ctrl-C does
        signal.signal(number, signal.default_int_handler)
    try:
        for setting in supervisor.plan.runs if supervisor.run() else []:
            print(f"baton show {setting.run_id[:8]} --runs {folder / 'runs'}")
    except KeyboardInterrupt:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it ends already
        print("baton: stopped; the same command goes on from here", file=sys.stderr)
        code = 130
    except BadInput as error:
        print(f"baton: {error}", file=sys.stderr)
        code = 2
    supervisor.close()
    if not keep or code:
        stop(folder)
    _end(code)


def _end(code: int) -> None:
    """Of this process: threads of FLARE's would keep it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@deploy.command()
def stop(fed: Fed) -> None:
    """End a run after the leg under way, and the server; 'start' goes on from there."""
    from baton.deploy.flare import supervise
    from baton.deploy.served import ENDED, STOP, read

    folder = _folder(fed)
    supervise.of(folder)
    before = read(folder / ENDED)
    (folder / STOP).touch()
    end = time.monotonic() + 15
    while time.monotonic() < end and read(folder / ENDED) == before and (folder / supervise.SERVER).exists():
        time.sleep(0.2)
    supervise.stop(folder)
    print("stopped")


@deploy.command()
def status(fed: Fed, as_json: Json = False) -> None:
    """Who is there, who holds the model, how far it is, what went wrong."""
    from baton.deploy.flare import supervise
    from baton.deploy.served import DOUBLES, SEEN, STATUS, read
    from baton.store import Store

    folder = _folder(fed)
    found = supervise.of(folder)
    _check_unchanged(fed, folder)
    store, at, seen = Store(folder / "runs"), read(folder / STATUS), read(folder / SEEN)
    up = (folder / supervise.SERVER).exists() and time.time() - float(seen.get("time", 0)) < 30
    done = {setting.run_id: store.complete(setting.run_id) for setting in found.runs}
    complete = all(done.values())
    doubles = read(folder / DOUBLES)
    table = {"runs": done, "complete": complete, "up": up, "connected": seen.get("sites", []) if up else [], **at}
    table["doubles"] = doubles
    if as_json:
        print_json(table)
        return
    for setting in found.runs:
        run = setting.run_id
        now = "training" if up and run == at.get("run") else "to come" if up else "not running"
        print(f"run {run} ({setting.algorithm}): {'complete' if done[run] else now}")
    for member in found.sites:
        holds = " holds the model" if not complete and up and member.name in at.get("holder", "").split(", ") else ""
        print(f"  {member.name:20} {'connected' if member.name in table['connected'] else 'away'}{holds}")
        if when := doubles.get(member.name):
            day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
            print(f"    a second kit under this name was refused, last at {day}; one of the two is a copy")
    if at:
        where = f"round {at['round'] + 1} of {at['rounds']}, leg {at['hop']} of {at['hops']}"
        print(f"{where}; the last leg took {at['seconds']:.2f} s; {at['lost']} lost" if at["seconds"] else where)
        print(*([f"last trouble: {at['says']}"] if at["says"] else []), sep="\n", end="\n" if at["says"] else "")


def study_of(found: "Plan", title: str, algorithms: list[str]) -> "Study":
    """A federation's runs, for a page."""
    from baton import study as studies

    base = {k: v for k, v in found.setting.model_dump().items() if k != "algorithm"}
    table: dict[str, Any] = {"title": title, "base": base, "axes": {"algorithm": algorithms}}
    table["report"] = {"lines": "algorithm"}
    return studies.parse(found.name, table)


@deploy.command()
def watch(
    fed: Fed,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes any free one.")] = 8642,
) -> None:
    """The report as a live page on this machine, while sites train."""
    from baton.deploy.flare import supervise
    from baton.store import Store

    folder = _folder(fed)
    found = supervise.of(folder)
    _check_unchanged(fed, folder)
    study = study_of(found, f"The federation {found.name}", [each.algorithm for each in found.runs])
    serve([study], Store(folder / "runs"), port, found.name)


@deploy.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where everything goes.")] = Path("federation"),
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Of each run.")] = 12,
) -> None:
    """Four hospitals as processes of this machine, one of them killed on the way: about two minutes, then a page."""
    from baton import report as reports
    from baton.deploy.flare import demo as hospitals
    from baton.store import Store

    found = hospitals.run(out, rounds, say)
    study = study_of(found, "Four hospitals, sequential and parallel", hospitals.ALGORITHMS)
    print(f"open {reports.report([study], Store(out / found.name / 'runs'), out)}")
    _end(0)


@site.command("start")
def site_start(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="The folder that the server's people sent.")],
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Your rows: CSV with a line of names.")],
    label: Annotated[str, typer.Option("--label", metavar="COLUMN", help="Its label, if called otherwise here.")] = "",
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Your rules [KIT/local/policy.toml].", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what is shared without being asked.")] = False,
) -> None:
    """Take part, until Ctrl-C. What leaves the site is listed first."""
    from baton.deploy import rows
    from baton.deploy.flare import stay

    found = stay.read(kit)
    here, samples, rules = stay.place(found, data, label, policy)
    print(*stay.shared(found, samples, rules), sep="\n", flush=True)
    for line in rows.unlike_plan(samples, found.columns):
        print(f"look: {line}", flush=True)
    if not yes and not typer.confirm("Do you agree?"):
        raise SystemExit(1)
    stay.stay(found, here, say)
