"""`baton leak`: what the server could learn from smashed data."""

from math import prod
from pathlib import Path
from typing import Annotated, Any

import typer

from baton.cli.common import DataDir, Json, Runs, Trust, app, built, print_json, use_data_dir
from baton.errors import BadInput
from baton.shown import print


@app.command()
def leak(
    run: Annotated[str, typer.Argument(help="A complete run's id, or enough of its beginning; of any algorithm.")],
    samples: Annotated[int, typer.Option(metavar="N", help="Test samples to look at.")] = 500,
    smash_noise: Annotated[
        float | None,
        typer.Option(metavar="X", help="Noise on the smashed data [default: the run's own].", show_default=False),
    ] = None,
    trust: Trust = None,
    data_dir: DataDir = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Distance correlation between samples and smashed data at every cut of a run's model, untrained and trained."""
    use_data_dir(data_dir)
    import torch

    from baton import algorithms, datasets
    from baton.measure.leak import leaks
    from baton.simulate.program import net_of
    from baton.store import Store

    store = Store(runs)
    run_id = store.find(run)
    if not store.complete(run_id):
        raise BadInput(f"run: {run_id} is not complete; the command that began it goes on with it")
    setting = built(store.read(run_id).setting, trust or [])
    algorithm, data = algorithms.build(setting.algorithm), datasets.load(setting.dataset, setting.clients)
    net = net_of(setting, data, torch.device("cpu"))
    noise = smash_noise if smash_noise is not None else algorithm.split.noise if algorithm.split else 0.0
    if not 0 <= noise < float("inf"):
        raise BadInput(f"smash-noise: {noise}; a share of the smashed data, 0 or more, is right")
    untrained = {name: leaf[0] for name, leaf in net.init([setting.seed]).items()}
    models = {"untrained": untrained, "trained": store.params(run_id)}
    found = {when: leaks(net, data, x, samples, noise, setting.seed) for when, x in models.items()}
    rows: list[dict[str, Any]] = [
        {"cut": before.cut.name, "numbers": prod(before.cut.shape), "untrained": before.correlation}
        | {"trained": after.correlation, "chance": after.chance}
        for before, after in zip(found["untrained"], found["trained"], strict=True)
    ]
    own = algorithm.split.cut if algorithm.split else ""
    count = min(samples, len(data.test_y))
    if as_json:
        print_json({"run": run_id, "cut": own, "samples": count, "smash_noise": noise, "cuts": rows})
        return
    print(f"{setting.model} on {setting.dataset}, run {run_id}, {count} test samples, noise {noise:g}")
    print("distance correlation of samples with smashed data; chance: with other samples' smashed data")
    print(f"{'cut':>8}  {'numbers':>8}  untrained    trained     chance")
    for row in rows:
        mark = "*" if row["cut"] == own else ""
        columns = "  ".join(f"{row[when]:>9.3f}" for when in ("untrained", "trained", "chance"))
        print(f"{row['cut'] + mark:>8}  {row['numbers']:>8,}  {columns}")
