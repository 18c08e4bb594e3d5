"""`baton orders`: what the order of clients costs a chain, by the bounds and on the quadratics of the lower ones."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import symbols as s
from baton.cli.common import Json, app, print_json
from baton.shown import print

if TYPE_CHECKING:
    from baton.theory import Chain, Cost, Groups

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Over epochs, as a figure: .png, .svg or .pdf.", show_default=False),
]
Turns = Annotated[
    int | None,
    s.constant("--groups", metavar="N", help="G groups that take turns, S of one a round (all of it).", show=False),
]
Within = Annotated[
    float | None, s.constant("--within", help="zeta within groups; as in random ones unless given.", show=False)
]


@app.command()
def orders(
    L: s.L = 1.0,
    mu: s.Mu = 0.1,
    sigma: Annotated[float, s.constant("--sigma", help="Standard deviation of a stochastic gradient (bounds).")] = 0.0,
    zeta: Annotated[float, s.constant("--zeta", help="Heterogeneity at the optimum.")] = 1.0,
    D: Annotated[float, s.constant("--D", help="Distance from the first iterate to the optimum.")] = 1.0,
    clients: s.Clients = 10,
    participants: s.Participants = None,
    local_steps: s.LocalSteps = 5,
    rounds: s.Rounds = 1000,
    groups: Turns = None,
    within: Within = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """What the order of clients costs a chain: natural, shuffled once or anew, back and forth, drawn.

    Strongly convex. Beside each bound stands the exact error on the quadratics that lower bounds are proved with; each
    at its own best learning rate. For the natural order and one shuffle the two are a constant apart. With --groups
    also cyclic participation, in chains and in parallel.
    """
    from baton import theory
    from baton.errors import BadInput

    if groups is None and within is not None:
        raise BadInput(f"within: {within:g}; it is zeta's part inside groups, so --groups G beside it is right")
    shared: dict[str, Any] = {"L": L, "mu": mu, "sigma": sigma, "zeta": zeta, "D": D}
    shared |= {"M": clients, "K": local_steps, "R": rounds}
    cyclic = None
    if groups is not None:
        cyclic = theory.groups(**shared, G=groups, S=participants or 0, within=within)
        participants = cyclic.S
    p = theory.chain(**shared, S=participants or 0)
    if out is not None:
        from baton.report import ordered, overlaid
        from baton.store import write

        form = overlaid.suffix(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        write(out, ordered.figure(p, form, cyclic))
    found = theory.costs(p) + (theory.groups_costs(cyclic) if cyclic else [])
    if as_json:
        print_json(
            {
                "constants": p._asdict(),
                **({"groups": cyclic._asdict()} if cyclic else {}),
                "orders": [_plain(cost) for cost in found],
            }
        )
    else:
        print(*_lines(p, cyclic, found), sep="\n")


def _plain(cost: "Cost") -> dict[str, str | float | None]:
    """JSON has no nan."""
    there = cost.bound.error == cost.bound.error
    return {
        "order": cost.order,
        "algorithm": cost.algorithm,
        "falls_as": cost.falls_as,
        "bound": cost.bound.error if there else None,
        "bound_lr": cost.bound.eta if there else None,
        "quadratics": cost.quadratics.error,
        "quadratics_lr": cost.quadratics.eta,
    }


def _lines(p: "Chain", cyclic: "Groups | None", found: "list[Cost]") -> list[str]:
    from baton.cli.table import Column, lines, width

    def written(values: list[float]) -> list[str]:
        return [f"{x:.4g}" if x == x else "-" for x in values]

    told = ", ".join(f"{name} = {value:g}" for name, value in p._asdict().items() if name != "epochs")
    columns = [
        Column("schedule", [_named(cost) for cost in found], left=True),
        Column("on quadratics\nfalls as", [cost.falls_as for cost in found], left=True),
        Column("exact error\nthere", written([cost.quadratics.error for cost in found])),
        Column("at lr", written([cost.quadratics.eta for cost in found])),
        Column("bound, for\nall problems", written([cost.bound.error for cost in found])),
        Column("at lr", written([cost.bound.eta for cost in found])),
    ]
    note = (
        f"E[F(x) - F*] of a chain after {p.epochs:,} epochs (all clients once), at its best learning rate. The "
        f"quadratics are quadratic_sides:mu={p.mu:g},zeta={p.zeta:g}, without noise. Clients drawn with replacement "
        "have no bound here."
    )
    notes = [note] + ([_of_groups(cyclic)] if cyclic else [])
    told = f"Strongly convex, {told}"
    return [*wrap(told, width()), "", *lines(columns, width()), "", *[line for n in notes for line in wrap(n, width())]]


def _named(cost: "Cost") -> str:
    if cost.order != "cyclic":
        return cost.order
    return "cyclic, chain" if cost.algorithm == "sequential" else "cyclic, parallel"


def _of_groups(p: "Groups") -> str:
    N = p.M // p.G
    who = "all" if p.S == N else f"{p.S} drawn"
    turns = f"{p.G} groups of {N} take turns, {who} of one" if p.G > 1 else f"one group of {N}, {who} of it"
    return (
        f"Cyclic: {turns} in each of {p.G * p.cycles:,} rounds, as a chain or in parallel. Its quadratics have the "
        f"same zeta, {p.between:.4g} between groups and {p.within:.4g} within them. Under 'falls as', R counts epochs."
    )
