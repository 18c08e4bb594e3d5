"""`baton partition`: who would hold what, as a table, measures, a picture or a map to keep."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from baton.cli.common import DataDir, Json, app, print_json, use_data_dir
from baton.errors import BadInput
from baton.shown import print

if TYPE_CHECKING:
    from baton.partitions import Owner
    from baton.setting import Setting

ROWS, FIRST, LABELS = 30, 10, 20  # clients shown one by one; clients shown of more; label columns
SPREAD = ("min", "25%", "median", "75%", "max")


class Split(NamedTuple):
    """One partition of one data set."""

    title: str
    dataset: str
    partition: str
    clients: int
    owner: "Owner"
    counts: "Owner"  # [M, classes]
    measures: dict[str, Any]
    names: tuple[str, ...] = ()  # of the clients, where they have any
    prior: "Owner | None" = None  # [M, classes], 1 where exdir allocated the class: the paper's q_c


@app.command()
def partition(
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", metavar="NAME", help="Data set.")] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="NAME", help="Such as exdir:C=2,alpha=10.")
    ] = None,
    clients: Annotated[int | None, typer.Option("--clients", "-M", metavar="N", help="M, all clients.")] = None,
    study: Annotated[
        str | None, typer.Option("--study", metavar="STUDY.toml", help="All partitions of a study instead.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw bubbles and a heat map: .png, .svg or .pdf.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the map as JSON, for file:PATH.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Who holds which labels: a table, how uneven it is, a picture, a map."""
    given = {"dataset": dataset, "partition": partition, "clients": clients}
    fields = {name: value for name, value in given.items() if value is not None}
    if study and (fields or write):
        names = ", ".join([*fields, *(["write"] if write else [])])
        raise BadInput(f"study: a study gives its own partitions, so --study goes without {names}")
    for path in filter(None, (plot, write)):
        if not path.parent.is_dir():
            raise BadInput(f"{'plot' if path is plot else 'write'}: no folder {str(path.parent)!r} for {path.name!r}")
    if plot and plot.suffix not in (".png", ".svg", ".pdf"):
        raise BadInput(f"plot: {str(plot)!r}; a name ending in .png, .svg or .pdf is right")
    use_data_dir(data_dir)
    from baton import study as studies
    from baton.setting import Setting

    found = studies.read(study) if study else None
    splits = _of_study(found.groups) if found else [_split("", Setting(**fields))]
    if write:
        from baton.partitions.from_file import dump

        _put(write, dump(splits[0].owner, splits[0].clients).encode())
    if plot:
        _put(plot, _draw(splits, found.report.columns if found else 1, plot.suffix[1:]))
    if as_json:
        shown = [_as_dict(split) for split in splits]
        print_json(shown if study else shown[0])
    elif study:
        _print_lines(splits)
    else:
        _print_one(splits[0])


def _put(path: Path, data: bytes) -> None:
    from baton.store import write

    try:
        write(path, data)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror})") from None


def _split(title: str, s: "Setting") -> Split:
    import numpy as np

    from baton import datasets
    from baton.clients import owners
    from baton.partitions.measures import measure, table

    data = datasets.load(s.dataset, s.clients)
    if not data.classes and not datasets.tells_numbers(data):
        raise BadInput(f"dataset: {s.dataset} has no labels to make a table of; digits or mnist has")
    owner = owners(s.dataset, s.partition, s.clients)
    labels = data.y.numpy() if data.classes else np.zeros(len(data.y), np.int64)  # numbers are of no class
    counts = table(owner, labels, s.clients, max(1, data.classes))
    heading = title or f"{s.dataset}, {s.partition}, {s.clients} clients"
    names = data.names if s.partition == "natural" and len(data.names) == s.clients else ()
    prior = _prior(s, labels) if data.classes else None
    return Split(heading, s.dataset, s.partition, s.clients, owner, counts, measure(counts).summary(), names, prior)


def _prior(s: "Setting", labels: "Owner") -> "Owner | None":
    """Return which classes ExDir allocated to each client, [M, classes]; None for other partitions."""
    from baton.names import bind
    from baton.partitions import PARTITIONS
    from baton.partitions.exdir import draw_exdir

    name, _, options = bind("partition", s.partition, PARTITIONS)
    if name != "exdir":
        return None
    return draw_exdir(labels, s.clients, **options).prior  # type: ignore[arg-type]


def _of_study(groups: "dict[str, list[Setting]]") -> list[Split]:
    """Each group's partitions, once each."""
    found = []
    for label, settings in groups.items():
        once = {(s.dataset, s.partition, s.clients): s for s in settings}
        named = label != "all"
        for s in once.values():
            parts = [label] if named else []
            parts += [s.partition] if len(once) > 1 or not named else []
            found.append(_split(": ".join(parts), s))
    return found


def _draw(splits: list[Split], columns: int, suffix: str) -> bytes:
    from baton.report.bubbles import Panel, grid, pair

    panels = [Panel(split.title, split.counts) for split in splits]
    return pair(panels[0], suffix) if len(panels) == 1 else grid(panels, columns, suffix)


def _as_dict(split: Split) -> dict[str, Any]:
    about = {"dataset": split.dataset, "partition": split.partition, "clients": split.clients}
    named = {"names": list(split.names)} if split.names else {}
    prior = {"prior": split.prior.tolist()} if split.prior is not None else {}
    return {
        "title": split.title,
        **about,
        **named,
        "measures": split.measures,
        "labels": split.counts.tolist(),
        **prior,
    }


def _print_one(split: Split) -> None:
    import numpy as np

    counts, m = split.counts, split.measures
    shown = counts[:, : LABELS if counts.shape[1] > 1 else 0]  # where there are no classes, only how many
    full = np.column_stack([shown, counts.sum(1)])
    names = split.names or tuple(map(str, range(len(full))))
    first = max(6, *(len(name) for name in names[:ROWS]))
    rows = list(zip(names, full[: ROWS if len(full) <= ROWS else FIRST], strict=False))
    width = max(6, len(f"{full.max():,}") + 1)
    print(f"{split.title}: {m['samples']:,} samples\n")
    print(f"{'client':>{first}}", *(f"{label:>{width}}" for label in range(full.shape[1] - 1)), f"{'all':>{width}}")
    if len(full) > ROWS:
        quantiles = np.quantile(full, [0, 0.25, 0.5, 0.75, 1], axis=0)
        for name, row in zip(SPREAD, quantiles, strict=True):
            print(f"{name:>{first}}", *(f"{_number(value):>{width}}" for value in row))
        print()
    for client, (name, row) in enumerate(rows):
        cells = [f"{value:,}" for value in row]
        if split.prior is not None:
            cells[:-1] = [
                x if allocated else "." for x, allocated in zip(cells[:-1], split.prior[client], strict=False)
            ]
        print(f"{name:>{first}}", *(f"{cell:>{width}}" for cell in cells))
    if len(full) > ROWS:
        print(f"   ... and {len(full) - FIRST:,} more clients")
    if counts.shape[1] > LABELS:
        print(f"   the first {LABELS} of {counts.shape[1]} labels; 'all' counts every one")
    print()
    spreads = {"sizes": "samples a client"} | ({"classes": "classes a client"} if counts.shape[1] > 1 else {})
    for name, what in spreads.items():
        print(f"{what}: " + ", ".join(f"{key} {_number(value)}" for key, value in m[name].items()))
    if m["without_samples"]:
        print(f"clients without samples: {m['without_samples']:,}")
    if counts.shape[1] == 1:
        return
    if split.prior is not None:
        allocated = int(split.prior[0].sum())
        fewer = int(((counts > 0).sum(1) < allocated).sum())
        print(
            f"classes allocated to each client: {allocated} (a dot: not allocated, q_c = 0); "
            f"clients that hold fewer: {fewer:,}"
        )
    tv, js = m["mean_total_variation"], m["mean_jensen_shannon"]
    print(f"mean distance to all samples' labels: total variation {tv:.4f}, Jensen-Shannon {js:.4f}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or float(value).is_integer() else f"{value:.4g}"


def _print_lines(splits: list[Split]) -> None:
    widest = max(len(split.title) for split in splits)
    print(f"{'':{widest}}  clients   samples a client   classes a client  total var.  Jensen-Sh.")
    for split in splits:
        m = split.measures
        sizes = "{min:,.0f} to {max:,.0f}".format(**m["sizes"])
        kinds = "{min:.0f} to {max:.0f}".format(**m["classes"])
        tv, js = m["mean_total_variation"], m["mean_jensen_shannon"]
        print(f"{split.title:{widest}} {split.clients:8,} {sizes:>18} {kinds:>18} {tv:>11.4f} {js:>11.4f}")
