"""What each line of a study costs: its metric against bytes sent and against modelled seconds, and the totals.

From the ledger's columns and the mean way through a round that runs are stored with; runs of an older store have none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from baton.ledger import Rates, seconds
from baton.report import words
from baton.report.bands import Array, Band, drawn, over_rounds
from baton.report.grid import Panel
from baton.report.sheets import metric_name
from baton.store import Run
from baton.store.columns import BYTES
from baton.study import Report, Study

Row = dict[str, Any]
HEADS = {
    "rounds_to": "rounds",
    "megabytes_to": "MB",
    "seconds_to": "seconds",
    "megabytes_up": "MB up",
    "megabytes_down": "MB down",
    "megabytes_peer": "MB peer to peer",
    "seconds": "seconds in all",
}


class Cost(NamedTuple):
    """One line of one panel, mean over seeds."""

    band: Band  # its metric over rounds
    megabytes: Array  # sent by then, every way
    seconds: Array  # modelled, by then
    total: tuple[float, ...]  # at the end: megabytes up, down and peer to peer; seconds


def cost(runs: Sequence[Run], report: Report, rates: Rates) -> Cost | None:
    """Of runs that differ in their seed; None where one of them has no ledger."""
    if not runs or any(run.way is None or any(column not in run.metrics for column in BYTES) for run in runs):
        return None
    band = drawn(runs, report.metric, report)
    sent = {column: over_rounds(runs, column, Report()) for column in BYTES}
    if not len(band.rounds) or any(not len(way.rounds) for way in sent.values()):
        return None
    megabytes = [np.interp(band.rounds, way.rounds, way.mean) / 1e6 for way in sent.values()]
    a_round = float(np.mean([seconds(run.way, rates) for run in runs if run.way is not None]))
    took = a_round * band.rounds
    ends = (*(float(way[-1]) for way in megabytes), float(took[-1]))
    return Cost(band, np.sum(megabytes, 0), took, ends)


def costs(panel: Panel, report: Report, rates: Rates) -> dict[Any, Cost]:
    """By line; none where a line has runs from before there was a ledger, since the others would stand alone."""
    found = {line: cost(curve.drawn, report, rates) for line, curve in panel.curves.items() if curve.done}
    known = {line: own for line, own in found.items() if own is not None}
    return known if len(known) == len(found) else {}


def level(found: Mapping[Any, Cost], best: str) -> float:
    """What every line comes to: the worst of their last values."""
    ends = [float(own.band.mean[-1]) for own in found.values()]
    return min(ends) if best == "max" else max(ends)


def reached(own: Cost, wanted: float, best: str) -> int:
    """The first evaluation at which a line is there."""
    there = own.band.mean >= wanted if best == "max" else own.band.mean <= wanted
    return int(np.argmax(there))


def rows(study: Study, panels: Sequence[Panel], rates: Rates) -> list[Row]:
    """A row a line and panel: what it takes to come as far as all do, and what the whole run sends and takes."""
    report, names, made = study.report, words.lines(study), []
    for panel in panels:
        found = costs(panel, report, rates)
        for line, own in found.items():
            wanted = level(found, report.best)
            at = reached(own, wanted, report.best)
            made.append(
                {"figure": words.value(panel.figure), "group": panel.group, "line": names[line], "level": wanted}
                | {"rounds_to": float(own.band.rounds[at]), "megabytes_to": float(own.megabytes[at])}
                | {"seconds_to": float(own.seconds[at])}
                | dict(zip(("megabytes_up", "megabytes_down", "megabytes_peer", "seconds"), own.total, strict=True))
            )
    return made


def texts(study: Study, found: Sequence[Row]) -> list[list[str]]:
    """The rows as one reads them."""
    metric, field = study.report.metric, study.report.figures
    first = [[*([row["figure"]] if field else []), row["group"], row["line"]] for row in found]
    told = [[words.number(row["level"], metric), *(_short(row[key]) for key in HEADS)] for row in found]
    return [[*one, *two] for one, two in zip(first, told, strict=True)]


def heads(study: Study) -> list[str]:
    """Above the columns of texts."""
    field, metric = study.report.figures, metric_name(study.report.metric)
    return [*([field] if field else []), "group", "line", f"to reach {metric}", *HEADS.values()]


def caption(study: Study, panels: Sequence[Panel], rates: Rates) -> str:
    """What was assumed, and what is not there."""
    begun = [panel for panel in panels if any(curve.done for curve in panel.curves.values())]
    lost = sum(not costs(panel, study.report, rates) for panel in begun)
    left_out = f" Left out: {words.counted(lost, 'group')} with runs that have no ledger." if lost else ""
    return (
        "Counted from shapes and batch sizes, mean over seeds; the level is one that every line of the panel comes to. "
        f"Seconds are modelled: {assumed(rates)}; legs in sequence add up, of legs side by side the longest counts."
        f"{left_out}"
    )


def assumed(rates: Rates) -> str:
    """The rates of the time model."""
    work = f"clients {_power(rates.client_flops)} FLOP/s, server {_power(rates.server_flops)} FLOP/s"
    links = f"{rates.up * 8e-6:g} Mbit/s up, {rates.down * 8e-6:g} Mbit/s down, {rates.latency * 1e3:g} ms a message"
    return f"{work}, {links}"


def _short(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def _power(x: float) -> str:
    return f"{x:.0e}".replace("e+", "e").replace("e0", "e") if x > 0 else "0"


def tables(study: Study, panels: Sequence[Panel], rates: Rates) -> dict[str, bytes]:
    """The table as files, by name; none where no run has a ledger."""
    found = rows(study, panels, rates)
    if not found:
        return {}
    stem, keys = f"{words.stem(study.name)}-cost", list(found[0])
    lines = [keys, *([row[key] for key in keys] for row in found)]
    text = f"{words.as_md(heads(study), texts(study, found))}\n{caption(study, panels, rates)}\n"
    return {f"{stem}.csv": words.as_csv(lines), f"{stem}.md": text.encode()}
