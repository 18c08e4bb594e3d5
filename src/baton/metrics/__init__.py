"""Metrics by name: what is told of a model's outputs for some rows of a test set.

A metric is a function (task, *, options) -> Metric. Of a user's own (`package.module:factory`) the factory may give a
plain function (outputs [n, ...], labels [n]) -> a number. To add one: a few lines in a file and one line in METRICS.

Shares of rows are percentages, 0 to 100 (accuracy, balanced_accuracy, sensitivity, specificity, top5); auc, f1, brier
and calibration are from 0 to 1, as everybody writes them.
"""

import inspect
from collections.abc import Callable
from functools import partial
from math import nan
from typing import Any, cast

import torch
from torch import Tensor

from baton.datasets import Dataset
from baton.errors import BadInput
from baton.metrics.base import Metric, Sums, Task, lost_rows, nan_for_nan, predicted
from baton.metrics.chances import auc, brier, calibration, loss
from baton.metrics.numbers import mae, mse, r2
from baton.metrics.shares import accuracy, balanced_accuracy, f1, sensitivity, specificity, top5
from baton.names import bind, path
from baton.names import canonical as spelled
from baton.usercode import call, place

__all__ = [
    "METRICS",
    "NONE",
    "PER_CLASS",
    "STATISTICS",
    "Metric",
    "Sums",
    "build",
    "build_one",
    "canonical",
    "label",
    "listed",
    "paths",
    "predicted",
    "regression",
    "sited",
    "wanted",
]

METRICS: dict[str, Callable[..., Metric]] = {
    "accuracy": accuracy,
    "loss": loss,
    "auc": auc,
    "sensitivity": sensitivity,
    "specificity": specificity,
    "f1": f1,
    "balanced_accuracy": balanced_accuracy,
    "brier": brier,
    "calibration": calibration,
    "top5": top5,
    "mse": mse,
    "mae": mae,
    "r2": r2,
}
NUMBERS = ("mse", "mae", "r2")  # of predicted numbers; loss is of both
NONE, PER_CLASS = "none", "per_class"  # nothing beyond the usual columns; the accuracy of each class, a column each
STATISTICS = ("mean", "worst", "best", "spread")  # over sites


def listed(text: str) -> list[str]:
    """`auc,calibration:bins=10` -> its specs: what is key=value after a comma belongs to the one before."""
    found: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if found and "=" in part and ":" not in part:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def canonical(text: str) -> str:
    """The one spelling of a list of metrics; each stands in it once."""
    words = {NONE: NONE, PER_CLASS: PER_CLASS}
    known = METRICS | dict.fromkeys(words, accuracy)  # for the nearest name
    found = [words.get(spec) or spelled("metrics", spec, known) for spec in listed(text)]
    names = [label(spec) for spec in found]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"metrics: {name!r} is given twice in {text!r}; each once is right")
    if NONE in found and len(found) > 1:
        raise BadInput(f"metrics: {text!r} has 'none' among others; none alone is right")
    return ",".join(found)


def label(spec: str) -> str:
    """The name of a metric in columns: `auc`, or that of a user's own factory."""
    own = path(spec, METRICS)
    return own.rpartition(":")[2] if own else spec.partition(":")[0]


def paths(text: str) -> list[str]:
    """The `package.module:factory` names in a list; nothing is imported."""
    return [own for spec in listed(text) if (own := path(spec, METRICS))]


def regression(data: Dataset) -> bool:
    """Whether numbers are predicted."""
    return data.classes == 0 and data.y.is_floating_point()


def sited(data: Dataset) -> bool:
    """Whether the data set has sites of its own that people will ask after."""
    return data.test_owner is not None or (data.owner is not None and data.classes > 0)


def wanted(text: str, data: Dataset) -> list[str]:
    """The specs that a run measures: those of its setting, or what its data set calls for."""
    if text:
        return [] if text == NONE else listed(text)
    if regression(data):
        return ["mse", "r2"]
    if data.classes and sited(data):
        return ["accuracy", "auc"] if data.classes == 2 else ["accuracy"]
    return []


def build(specs: list[str], data: Dataset) -> dict[str, Metric]:
    """The metrics by label; one that cannot be of this data set is refused."""
    task, found = Task(data.classes, data.loss), dict[str, Metric]()
    for spec in specs:
        if spec == PER_CLASS:
            if not data.classes:
                raise BadInput("metrics: per_class is of classes, and this data set has none; mse is right")
            continue
        name, *_ = bind("metrics", spec, METRICS)
        if name in METRICS and name != "loss" and (name in NUMBERS) == (data.classes > 0):
            what, right = ("numbers", "auc") if name in NUMBERS else ("classes", "mse")
            raise BadInput(f"metrics: {name} is of predicted {what}, which this data set has none of; {right} is right")
        found[label(spec)] = build_one(spec, task)
    return found


def build_one(spec: str, task: Task) -> Metric:
    """Return the metric that a spec's factory makes for a task: a Metric, or a plain function of one model's rows.

    A plain function inside a Metric, `Metric(function, best="min")`, is one that says which end is better.
    """
    name, factory, options = bind("metrics", spec, METRICS)
    made = call("metrics", name, factory, task, **options)
    if name in METRICS:
        return cast("Metric", made)
    metric = made if isinstance(made, Metric) else Metric(made)
    if _is_plain(metric.of) or not isinstance(made, Metric):
        metric = metric._replace(of=_over_lanes(name, factory, metric.of))
    else:
        metric = _watched(metric, name)
    return nan_for_nan(metric)


def _watched(metric: Metric, name: str) -> Metric:
    """Return a user's metric whose functions are called as all of a user's are: what they get wrong is one line."""

    def watched(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return partial(call, "metrics", name, function)

    sums = metric.sums and metric.sums._replace(rows=watched(metric.sums.rows))
    held = metric.held and watched(metric.held)
    return metric._replace(of=watched(metric.of), sums=sums, held=held)


def _is_plain(function: Callable[..., Any]) -> bool:
    """Whether it takes outputs and labels of one model, and no weights."""
    try:
        return len(inspect.signature(function).parameters) == 2
    except (TypeError, ValueError):
        return False


def _over_lanes(name: str, factory: Callable[..., Any], function: Any) -> Callable[..., Tensor]:
    """A user's function of one lane's rows, over lanes."""
    if not callable(function):
        what = f"gives a {type(function).__name__}; a function of outputs and labels is right"
        raise BadInput(f"metrics: {name!r} {what}{place(name, factory)}")

    def one(outputs: Tensor, labels: Tensor) -> float:
        found = call("metrics", name, function, outputs, labels)
        try:
            return float(found)
        except (TypeError, ValueError, RuntimeError):
            what = f"gives a {type(found).__name__} for {len(labels)} rows; one number is right"
            raise BadInput(f"metrics: {name!r} {what}{place(name, factory)}") from None

    def of(outputs: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
        some = slice(None) if weight is None else weight > 0
        lost = lost_rows(outputs)[:, some].any(1).tolist()  # it is not asked of outputs that are none
        found = [nan if gone else one(lane[some], labels[some]) for lane, gone in zip(outputs, lost, strict=True)]
        return torch.tensor(found, dtype=torch.float64)

    return of
