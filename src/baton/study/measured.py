"""Whether the metrics that a study reports are measured by its runs: said before anything is trained."""

from collections.abc import Sequence

from baton import datasets, metrics
from baton.errors import BadInput, nearest
from baton.metrics import METRICS, NONE, PER_CLASS, STATISTICS
from baton.setting import Setting
from baton.store.columns import BYTES, EXACT, MEASURED
from baton.study.tables import Report

USUAL = (*MEASURED, *EXACT, *BYTES)


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
    known = dict.fromkeys(column for s in settings for column in _columns(s, load))
    unknown = not any(s.metrics == "" for s in settings) or load  # else data sets would have to be asked
    if name in known or (not unknown and label(name) in METRICS) or (not unknown and name.startswith("class_")):
        return
    if label(name) in METRICS:
        right = f"metrics = {label(name)!r} in [base] is right"
        raise BadInput(f"[report] {key}: no run of this study measures {name!r}; {right}")
    every = [*USUAL, *(f"test_{metric}" for metric in METRICS), *known]
    raise BadInput(f"[report] {key}: no metric {name!r}; {nearest(name, dict.fromkeys(every))}")


def label(name: str) -> str:
    """`test_auc` and `site_auc_worst` -> auc; "" of what is named otherwise."""
    where, _, rest = name.partition("_")
    head, _, statistic = rest.rpartition("_")
    return rest if where == "test" else head if where == "site" and statistic in STATISTICS else ""


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
    return [*usual, *(c for x in labels for c in (f"test_{x}", *(f"site_{x}_{end}" for end in STATISTICS)))]
