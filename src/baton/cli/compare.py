"""`baton compare`: algorithms, or stored runs, side by side."""

import math
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
    from baton.comparison import Comparison
    from baton.setting import Setting


@app.command()
@flags.of_a_setting
def compare(
    fields: dict[str, Any],
    run: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Stored runs by id, in place of settings.")
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option("--algorithm", "-a", metavar="NAME", help="One of those compared [sequential, parallel]."),
    ] = None,
    lrs: Annotated[
        str,
        typer.Option(
            "--lrs", metavar="X,Y,...", help="Rates to choose from [0.01 to 0.3, and beyond where that is better]."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", help="Seeds, from --seed on.")] = 5,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="Compared by this [the data set's].")] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write the report with its figures here.", show_default=False),
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
    """Two or more algorithms on one setting: each at its best learning rate, over seeds, and which is ahead.

    With RUN... stored runs are set side by side; those that differ in their seed alone are one line.
    """
    use_data_dir(data_dir)
    from baton import comparison as comparing
    from baton.crew.on_ray import held
    from baton.store import Store

    place = where(on, parts, cores)
    store, given = Store(runs), flags.given(fields)
    if run:
        if given or algorithm:
            what = ", ".join([*given, *(["algorithm"] if algorithm else [])])
            raise BadInput(f"compare: stored runs have their own settings, so they go without {what}")
        study = comparing.of_runs([store.read(store.find(name)).setting for name in run], metric)
    else:
        names = algorithm or ["sequential", "parallel"]

        def training(todo: "list[Setting]") -> None:
            train(todo, store, device, memory, quiet or as_json, precision=precision, place=place)

        with held():
            study = comparing.trained(given, store, training, names, rates(lrs, given), seeds, metric)
    found = comparing.look(study, store, out, typed=not run)
    if as_json:
        print_json(as_dict(found))
    else:
        print(found)


def rates(text: str, given: dict[str, Any]) -> list[float]:
    """The rates to choose from: the one that --lr gives, where it does; none where none is given."""
    if "lr" in given and text:
        raise BadInput(f"lr: {given['lr']:g} is given, and lrs too; one of them is right")
    try:
        return [float(part) for part in text.split(",")] if text else [given["lr"]] if "lr" in given else []
    except ValueError:
        raise BadInput(f"lrs: {text!r}; numbers with commas between them, 0.01,0.03,0.1, are right") from None


def as_dict(found: "Comparison") -> dict[str, Any]:
    """For scripts; what is not finite is null."""

    def number(x: float) -> float | None:
        return x if math.isfinite(x) else None

    lines = [
        {
            "name": line.name,
            "lr": line.lr,
            **{key: number(getattr(line, key)) for key in ("mean", "low", "high")},
            "scores": dict(line.scores),
            "runs": list(line.runs),
        }
        for line in found.lines
    ]
    pairs = [
        {
            "first": pair.first,
            "second": pair.second,
            **{key: number(getattr(pair.difference, key)) for key in ("mean", "low", "high", "p", "seed_error")},
            "seeds": pair.difference.seeds,
            "paired": pair.difference.paired,
            "test_rows": pair.difference.rows.n if pair.difference.rows else None,
            "test_error": pair.difference.rows.error if pair.difference.rows else None,
            "p_corrected": pair.difference.sure,
            "no_interval": pair.difference.why,
            "clear": pair.difference.clear,
        }
        for pair in found.pairs
    ]
    about = {"metric": found.metric, "unit": found.unit, "winner": found.winner, "verdict": found.verdict}
    return {**about, "lines": lines, "pairs": pairs, "notes": found.notes}
