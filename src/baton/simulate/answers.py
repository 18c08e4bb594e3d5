"""How far other test rows would have moved the metric of stored runs: their final models answer each row once more."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from baton import datasets, metrics
from baton.errors import BadInput
from baton.metrics.sampling import TestRows, row_errors
from baton.nn.flops import flops
from baton.seam import State
from baton.setting import Setting
from baton.simulate import personal
from baton.simulate.arithmetic import arithmetic
from baton.simulate.program import Program
from baton.store import Store
from baton.verdict import RowErrors

MOST = 2e12  # operations: about a minute on two cores; what would take more is left out
LANES = 32  # models at once
ROWS = 4096  # answered at once

Found = Mapping[str, RowErrors | str]  # by run id; a text: why there are none


def source(store: Store) -> Callable[[Sequence[Setting], str], Found]:
    """Return a function that gives the row errors of runs, and works them out once for each run and metric.

    Everything that names a winner asks it: report, watch, compare and advise.
    """
    known: dict[str, dict[str, RowErrors | str]] = {}

    def errors(settings: Sequence[Setting], metric: str) -> Found:
        own = known.setdefault(metric, {})
        own |= answered([s for s in settings if s.run_id not in own], metric, store)
        return {s.run_id: own[s.run_id] for s in settings}

    return errors


def answered(settings: Sequence[Setting], metric: str, store: Store) -> dict[str, RowErrors | str]:
    """Return what test rows leave open in a metric of each run's final model, or why that is not known."""
    found: dict[str, RowErrors | str] = {}
    shapes: dict[str, list[Setting]] = {}
    for s in {s.run_id: s for s in settings}.values():
        shapes.setdefault(s.shape_key, []).append(s)
    with arithmetic("fp32"):
        for alike in shapes.values():
            for at in range(0, len(alike), LANES):
                lanes = alike[at : at + LANES]
                made = _tried(lanes, metric, len(settings), store)
                found |= dict.fromkeys((s.run_id for s in lanes), made) if isinstance(made, str) else made
    return found


def _tried(settings: Sequence[Setting], metric: str, runs: int, store: Store) -> dict[str, RowErrors | str] | str:
    """The same, and why not where the data or the models are not here."""
    try:
        return _errors(settings, metric, runs, store)
    except BadInput as error:
        return f"the test rows cannot be answered again here ({error})"


def _errors(settings: Sequence[Setting], metric: str, runs: int, store: Store) -> dict[str, RowErrors | str] | str:
    """Of lanes of one program; runs: how many there are in all."""
    one = settings[0]
    where, label, statistic = _parsed(metric)
    if where == "site" and statistic != "mean":
        return (
            f"the {statistic} over sites is of sites that the same test rows chose"
            if statistic != "spread"
            else ("what other test rows would make of the spread over sites is not known")
        )
    if not where:
        return f"what other rows would make of {metric} is not known"
    data = datasets.load(one.dataset, one.clients)
    if data.optimum is not None:
        return f"{metric} of a quadratic is of no sample of rows; distance is exact"
    specs = {"accuracy": "accuracy", "loss": "loss"} | {metrics.label(x): x for x in metrics.wanted(one.metrics, data)}
    if where == "class":
        label, only = "accuracy", int(label)
    else:
        only = None
    if label not in specs:
        return f"{metric} was not asked for in these runs"
    if label == "accuracy" and not data.classes:
        return f"{metric} is of classes, and this data set has none"
    program = Program(settings, torch.device("cpu"))
    count = program.clients.test_y.shape[1]
    if runs * count * flops(program.net.module, program.net.sample) > MOST:
        return "to let the final models answer each test row again would take more than a minute"
    outputs = _outputs(program, store)
    if isinstance(outputs, str):
        return outputs
    found: dict[str, RowErrors | str] = {}
    chosen = metrics.build([specs[label]], data)[label]
    for lanes in _alike(program):
        rows = _test_rows(program, lanes[0], data.classes, where == "site", only)
        made = rows if isinstance(rows, str) else row_errors(chosen, outputs[lanes], rows)
        for place, lane in enumerate(lanes):
            found[settings[lane].run_id] = made if isinstance(made, str) else made[place]
    return found


def _parsed(metric: str) -> tuple[str, str, str]:
    """`test_auc` -> test, auc, ""; `site_auc_mean` -> site, auc, mean; `class_3_accuracy` -> class, 3, ""; else ""."""
    where, _, rest = metric.partition("_")
    if where == "test":
        return where, rest, ""
    name, _, statistic = rest.rpartition("_")
    if where == "site" and statistic in metrics.STATISTICS:
        return where, name, statistic
    return (where, name, "") if where == "class" and name.isdigit() and statistic == "accuracy" else ("", "", "")


def _outputs(program: Program, store: Store) -> Tensor | str:
    """What the final models put out for their test rows [L, n, ...], or why that is not known."""
    if program.algorithm.personal is not None:
        return _personal(program, store)
    each = [store.params(s.run_id) for s in program.settings]
    params = {name: torch.stack([own[name] for own in each]) for name in each[0]}
    pool, count = program.clients.test_x.flatten(0, 1), program.clients.test_y.shape[1]
    first = program.evaluate.of_lane.unsqueeze(1) * count  # [L, 1] of each lane's own test set
    parts = []
    for begin in range(0, count, ROWS):
        places = first + torch.arange(begin, min(count, begin + ROWS))
        parts.append(program.legs.outputs(params, pool, places))
    return torch.cat(parts, 1)


def _personal(program: Program, store: Store) -> Tensor | str:
    """The same where each client uses a model of its own: it answers its own rows; every row has to be someone's."""
    own, asked = program.algorithm.personal, program.evaluate.asked
    if own is None or asked is None or asked.owner is None:
        return "each client uses a model of its own, and nothing says whose a test row is"
    states = [store.state(s.run_id) for s in program.settings]
    stacked = State(*({n: torch.stack([each[i][n] for each in states]) for n in states[0][i]} for i in range(2)))
    made, known = personal.answers(program.legs, own(stacked), program.clients, asked.owner, asked.of_lane)
    return made if bool(known.all()) else "each client uses a model of its own, and some test rows are nobody's"


def _alike(program: Program) -> list[list[int]]:
    """The lanes that share a test set and who holds what."""
    found: dict[tuple[int, int], list[int]] = {}
    partition = program.lanes.partition.tolist()
    for lane, key in enumerate(zip(program.evaluate.of_lane.tolist(), partition, strict=True)):
        found.setdefault(key, []).append(lane)
    return list(found.values())


def _test_rows(program: Program, lane: int, classes: int, at_sites: bool, only: int | None) -> TestRows | str:
    """The test rows of a lane, and whose they are where a mean over sites is asked for."""
    s, data = program.settings[lane], int(program.evaluate.of_lane[lane])
    name, labels = f"{s.dataset} {s.made_of.data}", program.clients.test_y[data].cpu()
    if not at_sites:
        return TestRows(name=name, labels=labels, classes=classes, only=only)
    asked = program.evaluate.asked
    if asked is None or asked.sites is None:
        return "nothing says whose the test rows are"
    sites = asked.sites
    if sites.owner is not None:
        return TestRows(name=name, labels=labels, classes=classes, owner=sites.owner[data], sites=len(sites.client))
    held = sites.held[int(program.lanes.partition[lane])]
    return TestRows(name=name, labels=labels, classes=classes, held=held)
