"""`baton crossover`: where the bounds of sequential and parallel training cross."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import symbols as s
from baton.cli.common import Json, app, print_json
from baton.shown import print

if TYPE_CHECKING:
    from baton.theory import Curves

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The curves as a figure: .png, .svg or .pdf.", show_default=False),
]


@app.command()
def crossover(
    over: Annotated[str, s.constant("--over", metavar=s.OVER, help="What varies.")] = "K",
    least: s.From = None,
    most: s.To = None,
    case: s.Case = None,
    L: s.L = 1.0,
    mu: s.Mu = 0.1,
    sigma: s.Sigma = 1.0,
    zeta: s.Zeta = 1.0,
    beta: s.Beta = 0.0,
    D: s.D = 1.0,
    A: s.A = 1.0,
    clients: s.Clients = 10,
    participants: s.Participants = None,
    local_steps: s.LocalSteps = 5,
    rounds: s.Rounds = 1000,
    eta_tilde: s.EtaTilde = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Where the two bounds cross over one variable, in words; and that they do not, where they do not.

    Each bound is taken at its own best effective rate, unless --eta-tilde gives one for both.
    """
    show(case or "strongly_convex", s.given(dict(locals())), over, least, most, eta_tilde, out, as_json)


def show(
    case: str,
    given: dict[str, Any],
    over: str,
    least: float | None,
    most: float | None,
    eta_tilde: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """The figure, where one is wanted, and the answer."""
    from baton import theory

    form = _form(out) if out else ""
    curves = theory.crossover(case, over, least, most, eta_tilde=eta_tilde, **given)
    if out:
        _draw(case, curves, eta_tilde, form, out)
    if as_json:
        print_json(_plain(case, given, curves))
    else:
        print(*_lines(case, given, curves), sep="\n")


def _form(out: Path) -> str:
    from baton.report import overlaid

    return overlaid.suffix(out)


def _draw(case: str, curves: "Curves", eta_tilde: float | None, form: str, out: Path) -> None:
    from baton.report import crossed
    from baton.store import write

    note = "each at its best rate" if eta_tilde is None else f"effective rate {eta_tilde:g}"
    out.parent.mkdir(parents=True, exist_ok=True)
    write(out, crossed.figure(case, curves, note, form))


def _plain(case: str, given: dict[str, Any], curves: "Curves") -> dict[str, Any]:
    from math import isfinite

    from baton.theory.symbols import used_symbols

    used = used_symbols(case) - {curves.over}
    totals = {name: [x if isfinite(x) else None for x in own.tolist()] for name, own in curves.totals.items()}
    return {
        "case": case,
        "over": curves.over,
        "constants": {symbol: x for symbol, x in given.items() if symbol in used and x is not None},
        "crossings": [crossing._asdict() for crossing in curves.crossings],
        "values": curves.values.tolist(),
        "bounds": totals,
        "reasons": list(curves.reasons),
    }


def _lines(case: str, given: dict[str, Any], curves: "Curves") -> list[str]:
    """The answer, and the two ends."""
    import numpy as np

    from baton.cli.table import Column, lines, width
    from baton.theory.symbols import used_symbols

    over, totals = curves.over, curves.totals
    there = np.flatnonzero(np.isfinite(totals["sequential"]) & np.isfinite(totals["parallel"]))
    first, last = int(there[0]), int(there[-1])

    def shown(x: float) -> str:
        return f"{x:.4g}" if over == "zeta" else f"{x:,.0f}"

    span = f"{over} from {shown(curves.values[first])} to {shown(curves.values[last])}"
    used = used_symbols(case) - {over}
    told = ", ".join(f"{name} = {x:g}" for name, x in given.items() if name in used and x is not None)
    said = [*wrap(f"{case.replace('_', ' ').capitalize()} case, {told}", width()), ""]
    if curves.crossings:
        said.append(f"The bounds cross over {span}:")
        for crossing in curves.crossings:
            where = f"from {over} = {shown(crossing.at)} on" if over != "zeta" else f"above zeta = {shown(crossing.at)}"
            said.append(f"  {crossing.after}'s is smaller {where}, {crossing.before}'s below")
    else:
        side = curves.smaller(first) or curves.smaller(last)
        said.append(f"The bounds do not cross over {span}:")
        said.append(f"  {side}'s is smaller throughout" if side else "  they are equal throughout")
    ends = dict.fromkeys([first, *(_place(curves, crossing.at) for crossing in curves.crossings), last])
    columns = [Column(over, [shown(curves.values[i]) for i in ends])]
    columns += [Column(name, [f"{own[i]:.4g}" for i in ends]) for name, own in totals.items()]
    columns.append(Column("smaller", [curves.smaller(i) or "equal" for i in ends], left=True))
    columns.append(Column("by a factor of", [f"{curves.factor(i):.3g}" for i in ends]))
    said += ["", *(f"  {line}" for line in lines(columns, width() - 2))]
    return said + [f"no bound at some {over}: {reason}" for reason in curves.reasons[:1]]


def _place(curves: "Curves", at: float) -> int:
    """The first point of the curves at or behind a value."""
    import numpy as np

    return min(int(np.searchsorted(curves.values, at)), len(curves.values) - 1)
