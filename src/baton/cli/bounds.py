"""`baton bounds`: the theorems as numbers, beside a study's runs, and Table 1."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from baton.cli import symbols as s
from baton.cli.common import DataDir, Hush, Json, Runs, Scale, app, print_json, use_data_dir
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.theory import Result, Row


@app.command()
def bounds(
    context: typer.Context,
    study: Annotated[
        str, typer.Argument(metavar="STUDY.toml", help="Its runs beside their bounds; left out: constants by flags.")
    ] = "",
    algorithm: Annotated[
        str | None,
        s.constant(
            "--algorithm",
            "-a",
            metavar="sequential|parallel|both",
            help="Theorem 1 (unless given) or 2; both over a variable.",
            show=False,
        ),
    ] = None,
    over: Annotated[
        str, s.constant("--over", metavar=s.OVER, help="Both bounds over this, and where they cross.", show=False)
    ] = "",
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
    strict: Annotated[
        bool, typer.Option("--strict/--no-strict", help="End where a condition of the theorem is broken, or say so.")
    ] = True,
    table: Annotated[bool, typer.Option("--table", help="Table 1 and SGD-RR at these constants instead.")] = False,
    zeta_star: Annotated[
        float | None, s.constant("--zeta-star", help="With --table: zeta_*, if it is not --zeta.", show=False)
    ] = None,
    sigma_star: Annotated[
        float | None, s.constant("--sigma-star", help="With --table: sigma_*, if it is not --sigma.", show=False)
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="With --table: LaTeX.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="With --table: Markdown.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="A figure, over rounds or --over: .png, .svg or .pdf.", show_default=False
        ),
    ] = None,
    group: Annotated[str, typer.Option("--group", metavar="NAME", help="With a study: one group of it [all].")] = "",
    runs: Runs = Path("runs"),
    scale: Scale = 1.0,
    data_dir: DataDir = None,
    quiet: Hush = False,
    as_json: Json = False,
) -> None:
    """What the theorems promise after R rounds, term by term; beside a study's runs; over a variable; or Table 1.

    The paper's letters are the flags.
    """
    use_data_dir(data_dir)
    if study:
        from baton.cli import overlay

        own = {"study", "out", "group", "runs", "scale", "data_dir", "quiet", "as_json"}
        overlay.alone(context, own, f"study: {study} has constants of its own, so it goes without")
        overlay.show(study, group, scale, runs, out, quiet, as_json)
        return
    if group or scale != 1:
        raise BadInput("study: --group and --scale go with one: baton bounds STUDY --group NAME is right")
    algorithm = s.algorithm_name(algorithm)
    given = s.given(dict(locals()))
    star = {"zeta_star": zeta_star, "sigma_star": sigma_star}
    forms = {"--latex": latex, "--markdown": markdown, "--json": as_json}
    if table:
        if over or algorithm == "both":
            raise BadInput("table: it has both algorithms at one place; leave out --over and -a both")
        if out is not None:
            raise BadInput(f"out: {str(out)!r}; Table 1 has no figure, leave it out")
        if eta_tilde is not None:
            raise BadInput(f"eta_tilde: {eta_tilde:g}; Table 1's rates are tuned, leave it out")
        if sum(forms.values()) > 1:
            raise BadInput(f"table: {' and '.join(f for f, asked in forms.items() if asked)}; one of them is right")
        _table(algorithm, case, given, star, strict, next((f for f, asked in forms.items() if asked), ""))
        return
    if over or algorithm == "both":
        from baton.cli import crossover

        if algorithm not in (None, "both"):
            raise BadInput(f"algorithm: {algorithm!r}; --over sets both beside each other: -a both is right")
        crossover.show(case or "strongly_convex", given, over or "R", least, most, eta_tilde, out, as_json)
        return
    if least is not None or most is not None:
        raise BadInput("from, to: they are the ends of a variable; --over K, say, is missing")
    for flag in ("--latex", "--markdown"):
        if forms[flag]:
            raise BadInput(f"{flag[2:]}: only with --table")
    for name, value in star.items():
        if value is not None:
            raise BadInput(f"{name}: {value:g}; only with --table: a single bound takes it as zeta or sigma")
    if out is not None:
        from baton.cli import overlay

        overlay.draw(algorithm or "sequential", case or "strongly_convex", given, eta_tilde, strict, out)
    _one(algorithm or "sequential", case or "strongly_convex", given, eta_tilde, strict, as_json)


def _one(
    algorithm: str, case: str, given: dict[str, Any], eta_tilde: float | None, strict: bool, as_json: bool
) -> None:
    from baton import theory
    from baton.theory.symbols import used_symbols

    found = theory.bound(algorithm, case, eta_tilde=eta_tilde, strict=strict, **given)
    rate = theory.tuned_rate(algorithm, case, strict=False, **given)
    tuned = theory.bound(algorithm, case, eta_tilde=rate, strict=False, **given)
    given["S"] = given["M"] if given["S"] is None else given["S"]
    used = used_symbols(case)
    about = {
        "algorithm": algorithm,
        "case": case,
        "total": found.total,
        "terms": found.terms,
        "dominant": found.dominant(),
        "eta_tilde": found.eta_tilde,
        "eta": found.eta,
        "minimised": eta_tilde is None,
        "largest_eta_tilde": theory.largest_rate(algorithm, case, strict=False, **given),
        "valid": found.valid,
        "reasons": list(found.reasons),
        "useful_local_steps": theory.useful_steps(algorithm, case, **given),
        "constants": {symbol: value for symbol, value in given.items() if symbol in used},
        "corollary": {
            "eta_tilde": rate,
            "total": tuned.total,
            "orders": theory.orders(algorithm, case, strict=False, **given),
        },
    }
    if as_json:
        print_json(_finite(about))
    else:
        _print(about, found, [symbol for symbol in given if symbol not in used])


def _print(about: dict[str, Any], found: "Result", unused: list[str]) -> None:
    algorithm, case = about["algorithm"], about["case"]
    constants, orders = about["constants"], about["corollary"]["orders"]
    what = "E|grad F(x)|^2" if case == "nonconvex" else "E[F(x) - F*]"
    print(f"{algorithm}, {case}: {what} <= {found.total:.4g} after {constants['R']:,} rounds")
    print(", ".join(f"{symbol} = {value:g}" for symbol, value in constants.items()) + "\n")
    print(f"{'term':<20} {'bound':>10} {'share':>6}   {'corollary':>10}")
    for name, value in found.terms.items():
        share = f"{100 * value / found.total:.0f}%" if found.total > 0 and isfinite(found.total) else ""
        print(f"{name:<20} {value:>10.4g} {share:>6}   {orders[name]:>10.4g}")
    print(f"{'total':<20} {found.total:>10.4g} {'':>6}   {sum(orders.values()):>10.4g}\n")
    steps = "(S K)" if algorithm == "sequential" else "K"
    origin = "the least bound's" if about["minimised"] else "given"
    print(f"largest term: {about['dominant']}")
    print(f"eta_tilde = {found.eta_tilde:.4g} ({origin}; at most {about['largest_eta_tilde']:.4g})")
    print(f"learning rate eta = eta_tilde/{steps} = {found.eta:.4g}")
    if isfinite(about["corollary"]["total"]):
        print(
            f"the corollary's eta_tilde = {about['corollary']['eta_tilde']:.4g} gives {about['corollary']['total']:.4g}"
        )
    steps = about["useful_local_steps"]
    if isfinite(steps):
        print(f"more local steps than about K = {steps:.4g} no longer lower the corollary's leading term")
    print("the corollary's column leaves out constants and logarithms")
    if unused:
        print(f"not in this case: {', '.join(unused)}")
    for reason in found.reasons:
        print(f"not a bound here: {reason}")


def _table(
    algorithm: str | None, case: str | None, given: dict[str, Any], star: dict[str, Any], strict: bool, form: str
) -> None:
    from baton import theory

    zeta = star["zeta_star"]
    rows = theory.table(case, algorithm, strict=strict, **star, **given)
    if case in (None, "strongly_convex"):
        rows += theory.related(algorithm, **given | {"zeta": given["zeta"] if zeta is None else zeta})
    if form == "--json":
        constants = {symbol: value for symbol, value in (given | star).items() if value is not None}
        print_json(_finite({"constants": constants, "rows": [row._asdict() for row in rows]}))
    elif form:
        print(theory.latex(rows) if form == "--latex" else theory.markdown(rows))
    else:
        _print_table(rows, given)


def _print_table(rows: "list[Row]", given: dict[str, Any]) -> None:
    from baton.theory.typeset import note, numbered

    names = list(rows[0].terms)
    print("Table 1, constants and logarithms left out, all clients in every round")
    print(", ".join(f"{s} = {value:g}" for s, value in given.items() if s not in ("S", "beta")) + "\n")
    notes = numbered(rows)
    labels = [row.label() + (f" [{notes[row.assumptions]}]" if row.assumptions else "") for row in rows]
    width = max(map(len, labels))
    print(f"{'':<{width}}", *(f"{name:>{max(10, len(name))}}" for name in [*names, "total"]))
    for i, row in enumerate(rows):
        if not i or (row.case, row.beside) != (rows[i - 1].case, rows[i - 1].beside):
            print(row.case if not row.beside else f"related work, {row.case} (appendix B)")
        cells = [*row.terms.items(), ("total", row.total)]
        print(f"{labels[i]:<{width}}", *(f"{_cell(value):>{max(10, len(name))}}" for name, value in cells))
    print()
    for text, number in notes.items():
        print(f"[{number}] {note(text)}")


def _cell(value: float) -> str:
    return f"{value:.3g}" if isfinite(value) else "-" if value != value else "inf"


def _finite(value: Any) -> Any:
    """JSON has no nan and no infinity."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value
