"""`baton orders`: what the order of clients costs a chain, by the bounds and on the quadratics that attain them."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import symbols as s
from baton.cli.common import Json, app, print_json

if TYPE_CHECKING:
    from baton.theory import Chain

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

    Strongly convex. Beside each bound stands the exact error on quadratics that no order does better on; each at its
    own best learning rate.
    """
    from baton import theory

    given = {"mu": mu, "zeta": zeta, "D": D, "M": clients, "K": local_steps, "L": L, "sigma": sigma}
    p = theory.chain(**given, R=rounds, S=participants or 0)  # type: ignore[arg-type]
    if out is not None:
        from baton.report import ordered, overlaid
        from baton.store import write

        form = overlaid.suffix(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        write(out, ordered.figure(p, form))
    found = _found(p)
    print_json({"constants": p._asdict(), "orders": found}) if as_json else print(*_lines(p, found), sep="\n")


def _found(p: "Chain") -> list[dict[str, Any]]:
    from math import isfinite

    from baton.theory import ORDER_RATES, least_error, order_bound, order_error

    rows = []
    for order, rate in ORDER_RATES.items():
        bound, error = least_error(order_bound, order, p), least_error(order_error, order, p)
        there = isfinite(bound.error)
        rows.append(
            {
                "order": order,
                "falls_as": rate,
                "bound": bound.error if there else None,
                "bound_lr": bound.eta if there else None,
                "quadratics": error.error,
                "quadratics_lr": error.eta,
            }
        )
    return rows


def _lines(p: "Chain", rows: list[dict[str, Any]]) -> list[str]:
    from baton.cli.table import Column, lines, width

    def column(name: str) -> list[str]:
        return ["-" if row[name] is None else f"{row[name]:.4g}" for row in rows]

    told = ", ".join(f"{name} = {value:g}" for name, value in p._asdict().items() if name != "epochs")
    columns = [
        Column("schedule", [row["order"] for row in rows], left=True),
        Column("on quadratics\nfalls as", [row["falls_as"] for row in rows], left=True),
        Column("exact error\nthere", column("quadratics")),
        Column("at lr", column("quadratics_lr")),
        Column("bound, for\nall problems", column("bound")),
        Column("at lr", column("bound_lr")),
    ]
    note = (
        f"E[F(x) - F*] of a chain after {p.epochs:,} epochs (all clients once), at its best learning rate. The "
        f"quadratics are quadratic_sides:mu={p.mu:g},zeta={p.zeta:g}, without noise. Clients drawn with replacement "
        "have no bound here."
    )
    return [*wrap(f"Strongly convex, {told}", width()), "", *lines(columns, width()), "", *wrap(note, width())]
