"""Measured against proved: a study's runs beside the bound of Theorem 1 or 2 and its terms, over rounds.

The theorems bound F at an average of x^(0) .. x^(R). A stored run of a quadratic has F(x^(r)) - F* at every round;
drawn is its mean under the same weights, which by convexity is at least F(average) - F*, and which the proofs bound.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from baton.constants import Objective, measure, symbols
from baton.errors import BadInput, nearest
from baton.report import words
from baton.report.bands import Array
from baton.report.reading import Reading
from baton.setting import Setting
from baton.store import Store
from baton.study import Study
from baton.theory import TERMS, Result, bound

Known = tuple[str, list[dict[str, float]]]  # case, symbols of each run
Know = Callable[[Sequence[Setting]], Known]  # runs that differ in their seed
Measure = Callable[[Sequence[Setting], Known, float, Array], Array | None]  # ..., eta_tilde, rounds -> [runs, rounds]
PROBLEM = ("dataset", "partition", "model", "clients", "batch_size", "sampling", "weight_decay")
POINTS = 120  # rounds at which a figure has a value, at most


class Cell(NamedTuple):
    """The runs of one algorithm in one group, at the learning rate of theirs with the least bound."""

    group: str
    algorithm: str
    why: str  # there is no bound, if there is none
    setting: Setting  # of the first seed
    seeds: int = 0
    case: str = ""
    constants: dict[str, float] = {}  # noqa: RUF012 means over seeds, which may start at different points
    rounds: Array = np.empty(0)
    measured: Array = np.empty((0, 0))  # [seeds, rounds]; no seeds where no run is complete
    bound: Result | None = None  # at these rounds; nan where it is no bound

    @property
    def ratio(self) -> float:
        """Measured, the mean over seeds, over proved, after the last round."""
        if self.bound is None or not len(self.measured):
            return float("nan")
        return float(self.measured[:, -1].mean() / self.bound.total[-1])


def points(rounds: int) -> Array:
    """Rounds at which values are drawn, evenly on a log axis."""
    return np.unique(np.geomspace(1, rounds, min(POINTS, rounds)).round())


def effective(setting: Setting) -> float:
    """eta_tilde = eta S K (sequential) or eta K (parallel)."""
    return setting.lr * setting.local_steps * (setting.participants if setting.algorithm == "sequential" else 1)


def uncovered(setting: Setting) -> str:
    """Why the theorems do not speak of a run; nothing if they do."""
    for field, right in (("algorithm", ("sequential", "parallel")), ("schedule", ("shuffled",)), ("clip", (0.0,))):
        value = getattr(setting, field)
        if value not in right:
            return f"{field}: {words.value(value)}; the theorems are for {' and '.join(map(words.value, right))}"
    if setting.epochs:
        return f"epochs: {setting.epochs}; the theorems are for legs of K steps each"
    if setting.sampling == "balanced":
        return "sampling: balanced; the theorems are for minibatches of a client's mean loss"
    return ""


def running(values: Array, case: str, mu: float, eta_tilde: float) -> Array:
    """Means of values [..., R + 1] up to each round, under the weights of the theorem for that many rounds."""
    keep = 1 - mu * eta_tilde / 2 if case == "strongly_convex" else 1.0
    found, total, weight = np.empty_like(values), np.zeros(values.shape[:-1]), 0.0
    for r in range(values.shape[-1]):
        total, weight = keep * total + values[..., r], keep * weight + 1  # relative to the last weight: none overflows
        found[..., r] = total / weight
    return found


def proved(algorithm: str, known: Known, eta_tilde: float | None, shared: dict[str, Any]) -> Result:
    """The bound, the mean over runs; nan where it is none. Without eta_tilde the least one at each place."""
    case, each = known
    found = [bound(algorithm, case, eta_tilde=eta_tilde, strict=False, **(own | shared)) for own in each]
    valid = np.all([one.valid for one in found], axis=0)

    def mean(values: Sequence[Any]) -> Any:
        return np.where(valid, np.mean(values, axis=0), np.nan)

    terms = {name: mean([one.terms[name] for one in found]) for name in TERMS}
    rates = [mean([getattr(one, field) for one in found]) for field in ("eta_tilde", "eta")]
    return Result(mean([one.total for one in found]), terms, rates[0], rates[1], valid, found[0].reasons)


def exact() -> Know:
    """Constants of quadratics, by linear algebra; other problems end in one line."""
    seen: dict[tuple[Any, ...], tuple[str, dict[str, float]]] = {}

    def know(settings: Sequence[Setting]) -> Known:
        first = settings[0]
        key = tuple(getattr(first, field) for field in PROBLEM)
        if key not in seen:
            if not Objective(first, torch.device("cpu")).quadratic:
                raise BadInput(f"overlay: {first.dataset!r} is no quadratic, and the store has F(x) - F* of those only")
            if first.weight_decay:
                raise BadInput(f"overlay: weight_decay = {first.weight_decay:g}; the store's F(x) - F* is without it")
            seen[key] = symbols(measure(first, torch.device("cpu")))
        case, own = seen[key]
        return case, [own]

    return know


def stored(store: Store) -> Measure:
    """The weighted mean of F(x^(r)) - F* so far, from what the store holds."""
    reading = store if isinstance(store, Reading) else Reading(store.root)

    def found(settings: Sequence[Setting], known: Known, eta_tilde: float, rounds: Array) -> Array | None:
        case, each = known
        runs = [reading.sound(s.run_id) for s in settings if reading.complete(s.run_id)]
        gaps = [run.metrics["objective_gap"] for run in runs if run and "objective_gap" in run.metrics]
        gaps = [gap[~np.isnan(gap)] for gap in gaps]
        gaps = [gap for gap in gaps if len(gap) == settings[0].rounds + 1]
        if not gaps:
            return None
        means = running(np.stack(gaps), case, each[0].get("mu", 0.0), eta_tilde)
        return np.asarray(means[:, rounds.astype(int)])

    return found


def cells(study: Study, know: Know, measured: Measure, group: str = "") -> list[Cell]:
    """Every cell of a study, or of one of its groups."""
    if group and group not in study.groups:
        raise BadInput(f"group: no {group!r} in {study.name}; {nearest(group, study.groups)}")
    made = []
    for name, settings in study.groups.items():
        if group in ("", name):
            alike: dict[str, list[Setting]] = {}
            for s in settings:
                alike.setdefault(s.replace(lr=1.0, seed=0).key, []).append(s)
            vary = [
                field
                for field in Setting.model_fields
                if field not in ("lr", "seed", "algorithm") and len({getattr(s, field) for s in settings}) > 1
            ]
            for own in alike.values():
                parts = words.told(study, {field: getattr(own[0], field) for field in vary})
                named = [name] if name != "all" or not parts else []
                made.append(_cell(", ".join([*named, *parts]), own, know, measured))
    if not any(cell.case for cell in made):
        raise BadInput(f"study: {study.name} has no run that the theorems speak of; {made[0].why}")
    return made


def _cell(group: str, settings: Sequence[Setting], know: Know, measured: Measure) -> Cell:
    first = settings[0]
    empty = Cell(group, first.algorithm, uncovered(first), first)
    if empty.why:
        return empty
    rates: dict[float, list[Setting]] = {}
    for s in settings:
        rates.setdefault(s.lr, []).append(s)
    known = know(next(iter(rates.values())))
    counts = {"M": first.clients, "S": first.participants, "K": first.local_steps}
    ends = counts | {"R": first.rounds}
    last = {lr: proved(first.algorithm, known, effective(own[0]), ends) for lr, own in rates.items()}
    good = [lr for lr, found in last.items() if found.valid]
    constants = {letter: float(np.mean([own[letter] for own in known[1]])) for letter in known[1][0]}
    if not good:
        return empty._replace(why=last[min(last)].reasons[0], case=known[0], constants=constants)
    chosen = rates[min(good, key=lambda lr: float(last[lr].total))]
    rounds, h = points(first.rounds), effective(chosen[0])
    found = measured(chosen, known, h, rounds)
    promised = proved(first.algorithm, known, h, counts | {"R": rounds})
    return Cell(
        group,
        first.algorithm,
        "",
        chosen[0],
        0 if found is None else len(found),
        known[0],
        constants,
        rounds,
        np.empty((0, len(rounds))) if found is None else found,
        promised,
    )
