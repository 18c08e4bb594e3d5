"""What a run says of each site: a row a site at its last evaluation, and how they differ."""

from collections.abc import Sequence
from math import isfinite, isnan, nan
from typing import TYPE_CHECKING, Any

from baton.shown import print

if TYPE_CHECKING:
    from baton.store import Store

UNKNOWN = (nan,)  # of a metric that does not say which end is better: it has no worst site, and no best
SHOWN = 24  # sites; of more, those that are worst off and a few that are best


def sites_of(store: "Store", run_id: str) -> dict[str, Any]:
    """For scripts: the whole matrix, [rounds][sites] a metric; nothing where sites were not measured."""
    found = store.sites(run_id) if store.complete(run_id) else None
    if found is None:
        return {}
    values = {
        label: [[float(x) if isfinite(x) else None for x in row] for row in table]
        for label, table in found.values.items()
    }
    told = {"rounds": found.rounds, "names": found.names, "n": found.rows, "values": values}
    return {"sites": told | {"how": store.about(run_id).sites}}


def print_sites(store: "Store", run_id: str) -> None:
    """Tables of at most 80 columns; nothing where there is nothing to tell."""
    _print_classes(store, run_id)
    found = store.sites(run_id) if store.complete(run_id) else None
    if found is None or not found.rounds:
        return
    labels, last = list(found.values), {label: table[-1].tolist() for label, table in found.values.items()}
    print(f"\nsites at round {found.rounds[-1]}: {store.about(run_id).sites}")
    wide = min(28, max(6, *map(len, found.names)))
    shown = labels[: max(1, (78 - wide - 8) // 13)]
    print(f"  {'site':{wide}} {'n':>7}" + "".join(f" {_head(label):>12}" for label in shown))
    metrics = store.read(run_id).metrics
    ends = {name: metrics.get(f"site_{labels[0]}_{name}", UNKNOWN) for name in ("best", "worst")}
    up = not float(ends["best"][-1]) < float(ends["worst"][-1])
    first = [x if up else -x for x in last[labels[0]]]
    ranked = sorted(range(len(found.names)), key=lambda i: (isnan(first[i]), first[i]))
    whole = len(ranked) <= SHOWN
    for i in range(len(ranked)) if whole else [*ranked[: SHOWN - 6], -1, *ranked[-5:]]:
        if i < 0:
            print(f"  ... {len(ranked) - SHOWN + 1} more, from the worst to the best {labels[0]}; sites.csv has all")
            continue
        name = found.names[i] if len(found.names[i]) <= wide else found.names[i][: wide - 1] + "…"
        print(f"  {name:{wide}} {found.rows[i]:7,}" + "".join(f" {_number(last[label][i]):>12}" for label in shown))
    for statistic in ("mean", "worst", "best", "spread"):
        cells = [float(metrics.get(f"site_{label}_{statistic}", UNKNOWN)[-1]) for label in shown]
        print(f"  {statistic:{wide}} {'':7}" + "".join(f" {_number(x):>12}" for x in cells))
    for label in shown:
        if lacking := sum(map(isnan, last[label])):
            what = "one class alone" if label == "auc" else "no test rows, or too few kinds of them"
            print(f"  {label}: none at {lacking} of {len(found.names)} sites ({what}); they are left out of the means")


def _print_classes(store: "Store", run_id: str) -> None:
    metrics = store.read(run_id).metrics
    own = [name for name in metrics if name.startswith("class_") and len(metrics[name])]
    if own:
        cells = [f"{name.split('_')[1]}: {_number(float(metrics[name][-1]))}" for name in own]
        print("\naccuracy by class, %:")
        for first in range(0, len(cells), 6):
            print("  " + "".join(f"{cell:13}" for cell in cells[first : first + 6]).rstrip())


def _head(label: str) -> str:
    return label if len(label) <= 12 else f"{label[:11]}…"


def _number(x: float) -> str:
    return "" if isnan(x) else f"{x:.4f}" if abs(x) < 10 else f"{x:.2f}"


def print_personal(rows: Sequence[dict[str, Any]]) -> None:
    """A line a site: accuracy with the run's model and with one trained further there; then what the run measures."""
    labels = [key for key in rows[0] if isinstance(rows[0][key], dict)][:2]
    print("the run's model at each site, and after 10 steps more there:")
    print(
        f"{'site':>6} {'samples':>8} {'accuracy':>9} {'tuned':>7}" + "".join(f" {x:>12} {'tuned':>7}" for x in labels)
    )
    for row in rows:
        more = [(row[label]["before"], row[label]["after"]) if label in row else (nan, nan) for label in labels]
        cells = "".join(f" {_number(before):>12} {_number(after):>7}" for before, after in more)
        print(f"{row['site']:6} {row['samples']:8,} {_number(row['before']):>9} {_number(row['after']):>7}{cells}")
