"""What columns the runs of a study measure, and which end of each is better: known before anything is trained."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from baton import datasets, metrics
from baton.datasets.base import cross_entropy
from baton.errors import BadInput, nearest
from baton.metrics import METRICS, NONE, PER_CLASS, STATISTICS
from baton.metrics.base import End, Task
from baton.names import path
from baton.setting import Setting
from baton.store.columns import BYTES, EXACT, HELD, MEASURED, REAL, held_back
from baton.study.tables import Report

USUAL = (*MEASURED, *EXACT, *BYTES)
PERCENT = ("accuracy", "balanced_accuracy", "sensitivity", "specificity", "top5")
SOME = 6  # classes of which every registered metric can be made, top5 among them
LESS = (*EXACT, *BYTES, *REAL)  # of no metric's name; less of each is better


def check(report: Report, settings: Sequence[Setting], load: bool = False) -> None:
    """Refuse a metric that nobody knows, or that no run measures. load: what data sets call for counts too."""
    if not settings:
        return
    for key, names in (("metric", [report.metric]), ("also", report.also)):
        for name in names:
            _check(key, name, settings, load)


def _check(key: str, name: str, settings: Sequence[Setting], load: bool) -> None:
    if name in USUAL and not load:
        return
    if name in HELD and any(s.validation for s in settings):
        return
    known = dict.fromkeys(column for s in settings for column in _columns(s, load))
    unknown = not any(s.metrics == "" for s in settings) or load  # else data sets would have to be asked
    if name in known or (not unknown and label(name) in METRICS) or (not unknown and name.startswith("class_")):
        return
    if label(name) in METRICS:
        right = f"metrics = {label(name)!r} in [base] is right"
        raise BadInput(f"[report] {key}: no run of this study measures {name!r}; {right}")
    every = [*USUAL, *(f"test_{metric}" for metric in METRICS), *known]
    raise BadInput(f"[report] {key}: no metric {name!r}; {nearest(name, dict.fromkeys(every))}")


def averaged(setting: Setting, metric: str, last: int) -> int:
    """Return how many of a run's last evaluations are averaged: at most `last`, and at most half of all.

    The one at round 0 is of the untrained model, and does not count.
    """
    every = 1 if metric in EXACT else setting.eval_every
    return at_most_half(-(-setting.rounds // every), last)


def worth(metric: str) -> float:
    """Return what all rows together are worth: 100 of a share in %, 1 of one from 0 to 1; 0 of any other metric."""
    own = "accuracy" if metric.removeprefix("validation_").startswith("class_") else label(metric)
    return {**dict.fromkeys(PERCENT, 100.0), "auc": 1.0, "f1": 1.0}.get(own, 0.0)


def at_most_half(count: int, last: int) -> int:
    """Return the smaller one of `last` and half of so many evaluations, at least 1."""
    return max(1, min(last, count // 2))


def label(name: str) -> str:
    """Return the metric of a column: auc of `test_auc`, `site_auc_worst` and `validation_site_auc_worst`, else ""."""
    where, _, rest = name.partition("_")
    if where == "validation" and rest.startswith("site_"):
        return label(rest)
    head, _, statistic = rest.rpartition("_")
    if where == "site":
        return head if statistic in STATISTICS else ""
    return rest.removeprefix("random_") if where in ("test", "validation", "train") else ""


def with_best(report: Report, settings: Sequence[Setting], given: bool) -> Report:
    """Return the report with the better end of its metric filled in.

    given: the report's own `best` was written; one that is against the metric's is refused, as is a metric of a user's
    own that does not say its end.
    """
    own = better_end(report.metric, settings)
    if given and report.best != own:
        less = "more" if own == "max" else "less"
        raise BadInput(
            f"[report] best: got {report.best!r}; expected {own!r}, since {less} of {report.metric} is better"
        )
    for name in report.also:
        if name.endswith(("_worst", "_best")) and label(name):
            better_end(name, settings)
    return report.model_copy(update={"best": own})


def better_end(name: str, settings: Sequence[Setting]) -> End:
    """Return which end of a column is better, as its metric says; refuse a user's own metric that does not say it."""
    own = label(name)
    if name in LESS or (own and name.endswith("_spread") and "site_" in name):
        return "min"
    if own in METRICS:
        return METRICS[own](Task(SOME, cross_entropy)).best or "max"
    for setting in settings:
        for spec in metrics.listed(setting.metrics):
            if metrics.label(spec) == own and path(spec, METRICS):
                return _own_end(name, spec, setting)
    return "max"  # accuracies by class, and names that no run measures, which are refused as such


def _own_end(name: str, spec: str, setting: Setting) -> End:
    task = Task(2, cross_entropy)
    with suppress(BadInput):  # its data are not here
        data = datasets.load(setting.dataset, setting.clients)
        task = Task(data.classes, data.loss)
    found = metrics.build_one(spec, task).best
    if found is None:
        right = "a Metric(..., best='max') or best='min' from its factory"
        raise BadInput(
            f"[report] metric: got {name!r}, of which {spec!r} does not say the better end; expected {right}"
        )
    return found


def _columns(setting: Setting, load: bool) -> list[str]:
    """What a run measures, as far as its fields tell; load: and its data set."""
    usual: list[str] = list(USUAL)
    specs = [] if setting.metrics == NONE else metrics.listed(setting.metrics)
    if load:
        data = datasets.load(setting.dataset, setting.clients)
        specs = metrics.wanted(setting.metrics, data)
        usual = [n for n in usual if (data.classes or not n.endswith("accuracy")) and (data.optimum or n not in EXACT)]
        usual += [f"class_{c}_accuracy" for c in range(data.classes if PER_CLASS in specs else 0)]
    labels = [metrics.label(spec) for spec in specs if spec != PER_CLASS]
    every = [*usual, *(c for x in labels for c in (f"test_{x}", *(f"site_{x}_{end}" for end in STATISTICS)))]
    return [*every, *_held(every)] if setting.validation else every


def _held(columns: Iterable[str]) -> list[str]:
    """The columns of the same metrics on samples held back."""
    return [held for name in columns if (held := held_back(name)) != name]
