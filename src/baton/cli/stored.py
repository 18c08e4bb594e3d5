"""The runs of a store as `baton list runs` shows them: chosen, sorted, in a table that fits."""

import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from baton import synonyms
from baton.cli import complete, table
from baton.cli.common import print_json
from baton.errors import BadInput, nearest
from baton.fields import FIELDS
from baton.shown import print

if TYPE_CHECKING:
    from baton.store import Store

RESULTS = {"test_accuracy": "largest", "distance": "smallest", "test_loss": "smallest"}  # the first there is; the best
HEADS = {"clients": "M", "participants": "S", "local_steps": "K", "rounds": "R", "batch_size": "b"}  # the paper's
TABLE = ("algorithm", "dataset", "partition", "model", *HEADS, "lr", "seed")
ALWAYS = ("algorithm", "clients", "participants", "local_steps", "rounds")  # in the table though they are all alike
EARLIER = "earlier format"  # the state of runs that are never reused, compared or reported
CLOSED = os.strerror(errno.EACCES)
LONGEST = 8  # characters of an id, if they tell it from the others


class Stored(NamedTuple):
    """What is in a store."""

    runs: list[dict[str, Any]]  # run, complete, diverged, state, metric, result, and the fields
    faults: dict[str, str]  # what is wrong with those that cannot be read


def print_runs(runs: Path, where: Sequence[str], sort: str, as_json: bool) -> None:
    """`baton list runs`."""
    found = stored(runs)
    chosen = _sorted(_chosen(found.runs, where), sort)
    if as_json:
        print_json({"runs": chosen} | ({"faults": found.faults} if found.faults else {}))
        return
    told = f"; {len(chosen)} of them here" if where else ""
    print(counted(runs, found.runs) + told)
    if chosen:
        print(*_lines(chosen), sep="\n")
    print_left_out(found.faults)


def print_left_out(faults: Mapping[str, str]) -> None:
    """A line for each run that cannot be read, with what helps."""
    for run, fault in faults.items():
        hint = "its owner can allow it" if fault.startswith(CLOSED) else "'baton repair' moves it aside"
        print(f"baton: {run} is left out: {fault}; {hint}", file=sys.stderr)


def counted(runs: Path, found: Sequence[dict[str, Any]]) -> str:
    """How many there are."""
    old = sum(run["state"] == EARLIER for run in found)
    more = f", {old} of an earlier format" if old else ""
    return f"runs in {runs}: {len(found)}, {sum(run['complete'] for run in found)} complete{more}"


def stored(runs: Path) -> Stored:
    """What the index says of every run.

    torch is loaded only where a run's files have to be read, or runs are in flight.
    """
    from baton.fields import Fields
    from baton.index import Index, check

    check(runs)
    index = Index(runs, lambda run, stamp: _store(runs).entry(run, stamp))
    entries = index.entries()
    texts = {run: entry.setting for run, entry in entries.items() if not entry.fault or entry.earlier}
    earlier = {run for run, entry in entries.items() if entry.earlier}
    flying = _store(runs).pool.in_flight() if any((runs / ".work" / "chunks").glob("[!.]*")) else {}
    texts |= {run: chunk.laid.settings[lane] for run, (chunk, lane) in flying.items() if run not in entries}
    if flying:
        earlier |= set(_store(runs).earlier())
    found = []
    for run in sorted(texts):
        fields = json.loads(texts[run])
        known = {name: fields.get(name, getattr(Fields, name)) for name in FIELDS}
        complete = run in entries and bool(entries[run].complete)
        old = run in earlier
        diverged = json.loads(entries[run].about)["diverged"] if complete and not old else None
        state = "diverged" if diverged is not None else "complete" if complete else "unfinished"
        state = EARLIER if old else state
        ends = json.loads(entries[run].ends or "{}") if complete and not old else {}
        metric = next((name for name in RESULTS if name in ends), None)
        result = {"metric": metric, "result": ends.get(metric)}
        found.append({"run": run, "complete": complete, "diverged": diverged, "state": state, **result, **known})
    return Stored(found, {run: entry.fault for run, entry in entries.items() if entry.fault and not entry.earlier})


@cache
def _store(runs: Path) -> "Store":
    from baton.store import Store

    return Store(runs)


# --- which of them, in what order


def _field(word: str, also: Sequence[str] = ()) -> str:
    """The field that a person means: its name, or the paper's letter."""
    letters = {letter: field for field, letter in HEADS.items()} | {"E": "epochs"}
    name = letters.get(word, word.replace("-", "_"))
    known = (*FIELDS, "state", "run", *also)
    if name not in known:
        raise BadInput(f"list: no field {word!r}; {nearest(word, known)}")
    return name


def _chosen(found: list[dict[str, Any]], where: Sequence[str]) -> list[dict[str, Any]]:
    """Those of which every `field=value` holds; a name stands for itself with any options."""
    for each in where:
        word, equals, value = each.partition("=")
        if not equals or not value:
            raise BadInput(f"where: {each!r}; field=value is right, such as M=10 or partition=iid")
        name = _field(word.strip())
        value = _registered(name, value.strip())
        found = [run for run in found if _same(run[name], value)]
    return found


def _registered(field: str, value: str) -> str:
    """Return the registered spelling of a name, and of all else what was written."""
    if field not in complete.ROOMS or ":" in value:
        return value
    return synonyms.registered(field, value, complete.names(field)) or value


def _same(x: Any, wanted: str) -> bool:
    if isinstance(x, int | float):
        try:
            return float(wanted) == x
        except ValueError:
            return False
    return str(x) == wanted or str(x).partition(":")[0] == wanted


def _sorted(found: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """By a field, or by result: the best first, what has none last."""
    if not by:
        return found
    name = _field(by, ("result",))
    if name != "result":
        return sorted(found, key=lambda run: run[name])

    def rank(run: dict[str, Any]) -> tuple[bool, str, float]:
        best = -1.0 if RESULTS.get(run["metric"]) == "largest" else 1.0
        return run["result"] is None, run["metric"] or "", best * (run["result"] or 0.0)

    return sorted(found, key=rank)


# --- the table


def _lines(found: list[dict[str, Any]]) -> list[str]:
    """What all have in common is told once, above the table."""
    room = table.width()
    alike = {name for name in TABLE if name not in ALWAYS and len({str(run[name]) for run in found}) == 1}
    ids = [run["run"] for run in found]
    short = next(n for n in range(LONGEST, 17) if len({one[:n] for one in ids}) == len(ids))
    columns = [table.Column("run", [one[:short] for one in ids], left=True)]
    columns.append(table.Column("result", [_result(run) for run in found]))
    for name in TABLE:
        if name not in alike:
            cells = [_cell(run, name) for run in found]
            words = isinstance(found[0][name], str)
            columns.append(table.Column(HEADS.get(name, name), cells, words, words))
    said = [f"  all: {', '.join(_common(name, found[0][name]) for name in TABLE if name in alike)}"] if alike else []
    metrics = {run["metric"] for run in found if run["metric"]}
    means = ", ".join(sorted(metric.replace("_", " ") for metric in metrics))
    said += [f"  result: {means} of the last evaluation"] if means else []
    return [*said, "", *(f"  {line}" for line in table.lines(columns, room - 2))]


def _cell(run: dict[str, Any], name: str) -> str:
    """A field; a leg of so many passes has no K, and E stands in its place."""
    if name == "local_steps" and run["epochs"]:
        return f"E={run['epochs']}"
    return f"{run[name]:g}" if isinstance(run[name], float) else str(run[name])


def _common(name: str, x: Any) -> str:
    shown = f"{x:g}" if isinstance(x, float) else str(x)
    return shown if isinstance(x, str) else f"{HEADS.get(name, name)} = {shown}"


def _result(run: dict[str, Any]) -> str:
    if run["result"] is None:
        return run["state"] if run["state"] != "complete" else ""
    x: float = run["result"]
    return f"{x:.2f} %" if run["metric"].endswith("accuracy") else f"{x:.4g}"
