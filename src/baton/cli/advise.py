"""`baton advise`: sequential or parallel, and at which learning rate, from a short probe of both."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import flags
from baton.cli.common import (
    Cores,
    DataDir,
    Devices,
    Hush,
    Json,
    Memory,
    On,
    Parts,
    Precision,
    Runs,
    app,
    print_json,
    use_data_dir,
)
from baton.cli.train import train
from baton.crew import where
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.advice import Bounds, Hits, Measure, Verdict
    from baton.setting import Setting

ADVISED = ("lr", "clip")


@app.command()
@flags.listing_no(*ADVISED)
def advise(
    fields: dict[str, Any],
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm", "-a", metavar="NAME", help="One of those tried [sequential, parallel, by size too]."
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", metavar="10%|2min", help="Part of the rounds that are tried, or a time to use.")
    ] = "10%",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Seeds of the probe, from --seed on.")] = 3,
    bounds: Annotated[bool, typer.Option("--bounds/--no-bounds", help="Set the paper's bounds beside it.")] = True,
    check: Annotated[
        str | None,
        typer.Option("--check", metavar="STUDY.toml", help="How often the probe was right in a study's stored runs."),
    ] = None,
    data_dir: DataDir = None,
    runs: Runs = Path("runs"),
    device: Devices = "auto",
    memory: Memory = None,
    precision: Precision = "auto",
    on: On = "",
    parts: Parts = 0,
    cores: Cores = 0,
    quiet: Hush = False,
    as_json: Json = False,
) -> None:
    """Sequential or parallel, which learning rate and clip, how sure, and why.

    Short runs of all candidates over a grid of rates decide; the bounds at the measured constants explain.
    """
    use_data_dir(data_dir)
    given, place = flags.given(fields), where(on, parts, cores)
    from baton.advice import budget as budgets

    limit = budgets.parse(budget)
    if check:
        if not limit.part:
            raise BadInput(f"budget: {budget!r}; stored runs are looked at for a part of their rounds, such as 10%")
        if given:
            raise BadInput(f"check: a study gives its own settings, so --check goes without {', '.join(given)}")
        _check(check, runs, limit.part, seeds, as_json)
        return
    for field in ADVISED:
        if field in given:
            raise BadInput(f"{field}: {given[field]!r} is given, but it is what 'baton advise' finds; leave it out")
    from baton.advice import plain, words
    from baton.advice.asked import ask
    from baton.crew.devices import one
    from baton.crew.on_ray import held
    from baton.store import Store

    setting, store, hush = flags.setting(fields), Store(runs), quiet or as_json
    kind = one(device)

    def training(todo: "list[Setting]") -> None:
        train(todo, store, device, memory, hush, precision=precision, place=place)

    with held():
        by, wanted, last, found = ask(setting, limit, seeds, algorithm or (), training, store)
    following = words.following(found, given)
    beside = _bounds(setting, found, kind, hush) if bounds else None
    if as_json:
        print_json(plain.advice(setting, wanted, last, by, found, beside, following))
    else:
        _print(setting, wanted, last, by, found, beside, following)


def _bounds(setting: "Setting", found: "Verdict", device: str, quiet: bool) -> "Bounds | str":
    """The bounds, their local constants taken along the advised run; or why there are none."""
    from baton import constants
    from baton.advice import NEEDED, bounds
    from baton.advice.probe import convex
    from baton.setting import Setting
    from baton.simulate.arithmetic import arithmetic, device_of
    from baton.sweep.progress import telling

    best = found.best
    along = {"algorithm": best.algorithm, "lr": best.lr, "clip": best.clip} if best else {}
    chosen = Setting(**{**setting.model_dump(), **along})
    try:
        with arithmetic("fp32"), telling(quiet) as tell:
            measured = constants.measure(chosen, device_of(device), NEEDED[convex(setting)], tell=tell)
        return bounds(measured)
    except BadInput as error:
        return f"no bounds: {error}"


def _print(
    setting: "Setting",
    wanted: "list[Setting]",
    last: int,
    by: "Measure",
    found: "Verdict",
    beside: "Bounds | str | None",
    following: str,
) -> None:
    from baton.advice import words

    seeds = len({s.seed for s in wanted})
    print(words.advice(found))
    if following:
        print(f"next: {following}")
    print(f"\nThe probe: {len(wanted)} runs, {wanted[0].rounds} of {setting.rounds} rounds, ", end="")
    print(f"{words.many(seeds, 'seed')}, {by.metric} over the last {words.many(last, 'evaluation')}")
    for name, own in found.sides.items():
        print(f"  {words.standing(name, own, by)}")
    print(f"  {words.why(found, by)}")
    for warning in words.warnings(found, last, seeds):
        print(f"  warning: {warning}")
    if found.best and wanted[0].rounds < setting.rounds:
        print(f"  {words.RATE}")
    if isinstance(beside, str):
        print(f"\n{beside}")
    elif beside is not None:
        print("\nThe bounds at this problem's constants:")
        for line in words.explained(beside, found.winner):
            print(f"  {line}")
        print(f"  {words.LIMITATION}")


def _check(name: str, runs: Path, part: float, seeds: int, as_json: bool) -> None:
    """Nothing is trained: the beginnings of the stored runs are the probe."""
    from baton import study as studies
    from baton.advice import hits, plain
    from baton.report.words import told
    from baton.store import Store

    study = studies.read(name)
    found = hits(study, Store(runs), part, seeds)
    if not found.rows:
        what = f"no setting of {name} with the whole grids of both algorithms"
        raise BadInput(f"check: {str(runs)!r} has {what}; 'baton sweep {name}' trains them")
    labels = [", ".join([hit.group, *told(study, hit.fields)]) for hit in found.rows]
    if as_json:
        print_json({"study": study.name, "probe": part, **plain.checked(found, labels)})
    else:
        _print_hits(found, labels)


def _print_hits(found: "Hits", labels: list[str]) -> None:
    """A table in Markdown, and what it comes to."""
    from baton.advice import words
    from baton.report.words import as_md

    rows = [[label, *words.row(hit, found.by)] for label, hit in zip(labels, found.rows, strict=True)]
    print(as_md(["setting", words.probed(found), "full run", "apart", "", "lost by following"], rows))
    for line in words.counted(found):
        print(line)
