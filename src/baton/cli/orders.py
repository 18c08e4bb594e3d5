"""`baton orders`: what the order of clients costs a chain, by the bounds and on the quadratics of the lower ones."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from baton.cli import symbols as s
from baton.cli.common import Json, app, print_json

if TYPE_CHECKING:
    from baton.theory import Chain, Cost

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Over epochs, as a figure: .png, .svg or .pdf.", show_default=False),
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
    out: Out = None,
    as_json: Json = False,
) -> None:
    """What the order of clients costs a chain: natural, shuffled once or anew, back and forth, drawn.

    Strongly convex. Beside each bound stands the exact error on the quadratics that lower bounds are proved with; each
    at its own best learning rate. For the natural order and one shuffle the two are a constant apart.
    """
    from baton import theory

    p = theory.chain(mu=mu, zeta=zeta, D=D, M=clients, K=local_steps, R=rounds, L=L, sigma=sigma, S=participants or 0)
    if out is not None:
        from baton.report import ordered, overlaid
        from baton.store import write

        form = overlaid.suffix(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        write(out, ordered.figure(p, form))
    found = theory.costs(p)
    if as_json:
        print_json({"constants": p._asdict(), "orders": [_plain(cost) for cost in found]})
    else:
        print(*_lines(p, found), sep="\n")


def _plain(cost: "Cost") -> dict[str, str | float | None]:
    """JSON has no nan."""
    there = cost.bound.error == cost.bound.error
    return {
        "order": cost.order,
        "falls_as": cost.falls_as,
        "bound": cost.bound.error if there else None,
        "bound_lr": cost.bound.eta if there else None,
        "quadratics": cost.quadratics.error,
        "quadratics_lr": cost.quadratics.eta,
    }


def _lines(p: "Chain", found: "list[Cost]") -> list[str]:
    from baton.cli.table import Column, lines, width

    def written(values: list[float]) -> list[str]:
        return [f"{x:.4g}" if x == x else "-" for x in values]

    told = ", ".join(f"{name} = {value:g}" for name, value in p._asdict().items() if name != "epochs")
    columns = [
        Column("schedule", [cost.order for cost in found], left=True),
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
    return [*wrap(f"Strongly convex, {told}", width()), "", *lines(columns, width()), "", *wrap(note, width())]
