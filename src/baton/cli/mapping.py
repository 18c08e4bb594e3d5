"""`baton map`: where sequential training is ahead of parallel, by measurement and by the bounds."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli.common import Devices, Hush, Json, Memory, Runs, app, print_json
from baton.cli.symbols import constant
from baton.cli.train import train
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.report.map import Grid, Place


@app.command("map")
def map_(
    delta: Annotated[str, constant("--delta", metavar="X,Y,...", help="How far Hessians differ.")] = "0,0.05,0.2,0.75",
    zeta: Annotated[str, constant("--zeta", metavar="X,Y,...", help="zeta_*, heterogeneity.")] = "0,0.3,1,3,10",
    local_steps: Annotated[str, constant("--local-steps", "-K", metavar="N,N,...", help="K.")] = "1,4,16",
    participants: Annotated[str, constant("--participants", "-S", metavar="N,N,...", help="S.")] = "2,8",
    clients: Annotated[int, constant("--clients", "-M", metavar="N", help="M, all clients.")] = 8,
    rounds: Annotated[int, constant("--rounds", "-R", metavar="N", help="R, rounds.")] = 100,
    L: Annotated[float, constant("--L", help="Smoothness.")] = 2.0,
    mu: Annotated[float, constant("--mu", help="Strong convexity.")] = 0.5,
    sigma: Annotated[float, constant("--sigma", help="Standard deviation of a stochastic gradient.")] = 0.0,
    rates: Annotated[int, constant("--rates", metavar="N", help="Effective rates, halves from 2/L down.")] = 10,
    seeds: Annotated[int, constant("--seeds", metavar="N", help="Seeds.")] = 4,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The figure: .png, .svg or .pdf.", show_default=False),
    ] = None,
    runs: Runs = Path("runs"),
    device: Devices = "auto",
    memory: Memory = None,
    quiet: Hush = False,
    as_json: Json = False,
) -> None:
    """Who is ahead where, over delta, zeta_*, K and S: measured on quadratics, and by the theorems' bounds.

    Both sides train with every rate of a grid, and each is taken at its best. What is stored is not trained again.
    """
    from baton.report import map as maps
    from baton.report import mapped, overlaid
    from baton.store import Store, write

    form = overlaid.suffix(out) if out else ""
    grid = maps.Grid(
        delta=_numbers("delta", delta, float),
        zeta=_numbers("zeta", zeta, float),
        K=_numbers("local_steps", local_steps, int),
        S=_numbers("participants", participants, int),
        M=clients,
        R=rounds,
        L=L,
        mu=mu,
        sigma=sigma,
        rates=rates,
        seeds=seeds,
    )
    maps.check(grid)
    store = Store(runs)
    train(maps.settings(grid), store, device, memory, quiet or as_json)
    found = maps.places(grid, store)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write(out, mapped.figure(grid, found, form))
    if as_json:
        print_json({"grid": grid._asdict(), "places": [_plain(place) for place in found]})
    else:
        print(*_lines(grid, found), sep="\n")


def _numbers(field: str, text: str, kind: Any) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{field}: {text!r}; numbers with commas between them are right") from None


def _plain(place: "Place") -> dict[str, Any]:
    from math import isfinite

    def numbers(own: Any) -> dict[str, float | None]:
        return {name: x if isfinite(x) else None for name, x in own.items()}

    told = {"measured": numbers(place.measured), "bounds": numbers(place.bounds), "promised": place.promised}
    return place._asdict() | told


def _lines(grid: "Grid", found: "list[Place]") -> list[str]:
    """How often who is ahead, and where the two ways of asking contradict each other."""
    from baton.cli.table import Column, lines, width
    from baton.notice import many
    from baton.report.map import at_an_end

    sides = ("sequential", "parallel", "")
    pairs = Counter((place.ahead, place.promised) for place in found)
    columns = [Column("ahead by measurement", [side or "neither clearly" for side in sides], left=True)]
    for side in sides:
        columns.append(Column(f"by the bounds: {side or 'neither'}", [str(pairs[row, side]) for row in sides]))
    said = [f"{many(len(found), 'place')}: M = {grid.M}, R = {grid.R}, L = {grid.L:g}, mu = {grid.mu:g}, "
            f"sigma = {grid.sigma:g}, {many(grid.seeds, 'seed')}, best of {grid.rates} rates", "",
            *lines(columns, width()), ""]  # fmt: skip
    for delta in grid.delta:
        own = [place for place in found if place.delta == delta]
        behind = sum(place.ahead == "parallel" for place in own)
        said.append(f"delta = {delta:g}: parallel is ahead in {behind} of {len(own)}")
    edge = sum(at_an_end(grid, place) for place in found)
    return [*said, f"a best rate is at an end of the grid in {edge} of {many(len(found), 'place')}"]
