"""What `baton bounds` shows over rounds: a study's runs beside their bounds, or a bound and its terms alone."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from baton.cli.common import print_json
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.report.overlay import Cell
    from baton.study import Study


def alone(context: typer.Context, allowed: set[str], line: str) -> None:
    """Refuse flags that were given and mean nothing here."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise BadInput(f"{line} --{name.replace('_', '-')}")


def show(name: str, group: str, scale: float, runs: Path, out: Path | None, quiet: bool, as_json: bool) -> None:
    """Measured over proved at the end of every cell of a study, and the figure."""
    from baton import study as studies
    from baton.report import overlaid
    from baton.store import write
    from baton.sweep.progress import telling

    form = overlaid.suffix(out) if out else ""
    with telling(quiet or as_json) as tell:
        cells = _cells(studies.read(name, scale), runs, group, tell)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write(out, overlaid.study_figure(cells, form))
    if as_json:
        print_json([_as_dict(cell) for cell in cells])
    else:
        _print(cells)


def draw(algorithm: str, case: str, given: dict[str, Any], eta_tilde: float | None, strict: bool, out: Path) -> None:
    """A bound by number of rounds, from 1 to R; without a rate the least bound at each."""
    from baton import theory
    from baton.report import overlaid
    from baton.report.overlay import points, proved
    from baton.store import write

    form = overlaid.suffix(out)
    theory.bound(algorithm, case, eta_tilde=eta_tilde, strict=strict, **given)  # its line, if the end is no bound
    rounds = points(given["R"])
    found = proved(algorithm, (case, [given]), eta_tilde, {"R": rounds})
    note = "the least bound at each" if eta_tilde is None else f"effective rate {eta_tilde:g}"
    out.parent.mkdir(parents=True, exist_ok=True)
    write(out, overlaid.bound_figure(algorithm, case, rounds, found, note, form))


def _cells(study: "Study", runs: Path, group: str, tell: Any) -> "list[Cell]":
    """Quadratics from the store; logistic regression trained once more; else one line."""
    import torch

    from baton.cli.replay import Replay
    from baton.report import overlay
    from baton.store import Store

    replay, exact, stored = Replay(torch.device("cpu"), tell), overlay.exact(), overlay.stored(Store(runs))

    def quadratic(settings: Any) -> bool:
        return bool(settings[0].model.partition(":")[0] == "quadratic")

    return overlay.cells(
        study,
        lambda settings: (exact if quadratic(settings) else replay.know)(settings),
        lambda settings, *rest: (stored if quadratic(settings) else replay.measured)(settings, *rest),
        group,
    )


def _print(cells: "Sequence[Cell]") -> None:
    from baton.report import overlay, words

    print("After the last round, at the learning rate with the least bound. Measured: F(average) - F* of logistic")
    print("regression, of quadratics the weighted mean of F(x) - F*, which is no less; the mean over seeds.\n")
    width = max(len("group"), *(len(cell.group) for cell in cells))
    columns = " ".join(f"{name:>10}" for name in ("eta_tilde", "seeds", "measured", "bound", "ratio"))
    print(f"{'group':<{width}}  {'algorithm':<10} {'lr':>8} {columns}  largest term")
    for cell in cells:
        line = f"{cell.group:<{width}}  {cell.algorithm:<10} "
        if cell.bound is None:
            print(f"{line}no bound: {cell.why}")
            continue
        measured = [f"{cell.measured[:, -1].mean():.4g}" if cell.seeds else "not run"]
        numbers = [f"{overlay.effective(cell.setting):.4g}", str(cell.seeds), *measured]
        numbers += [f"{cell.bound.total[-1]:.4g}", f"{cell.ratio:.2g}" if cell.seeds else ""]
        told = " ".join(f"{number:>10}" for number in numbers)
        print(f"{line}{words.value(cell.setting.lr):>8} {told}  {cell.bound.dominant()[-1]}")
    if any(_shuffled(cell) for cell in cells):
        print("\nThe theorems take the steps of a leg as independent, which sampling = 'replacement' makes them.")


def _shuffled(cell: "Cell") -> bool:
    """Minibatches without replacement: the next one depends on those before it. A quadratic's client has one sample."""
    s = cell.setting
    return cell.bound is not None and s.sampling == "shuffle" and s.model.partition(":")[0] != "quadratic"


def _as_dict(cell: "Cell") -> dict[str, Any]:
    from baton.report import overlay

    s, b = cell.setting, cell.bound
    about: dict[str, Any] = {"group": cell.group, "algorithm": cell.algorithm, "why": cell.why, "case": cell.case}
    about |= {"constants": cell.constants, "lr": s.lr, "eta_tilde": overlay.effective(s), "seeds": cell.seeds}
    if b is not None:
        ratio, measured = cell.ratio, cell.measured.mean(0).tolist() if cell.seeds else None
        about |= {"ratio": ratio if isfinite(ratio) else None, "rounds": cell.rounds.tolist(), "measured": measured}
        about |= {"bound": _listed(b.total), "terms": {name: _listed(term) for name, term in b.terms.items()}}
    return about


def _listed(values: Any) -> list[float | None]:
    return [value if isfinite(value) else None for value in values.tolist()]
