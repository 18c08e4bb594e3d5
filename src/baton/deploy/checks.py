"""A reply is checked before it is believed."""

import math

import torch
from torch import Tensor

from baton.deploy.messages import Sums
from baton.lanes import Params
from baton.sites.visit import Answer, Order

LARGE = float(torch.finfo(torch.float32).max)
ROUNDING = 1e-6
METRIC_RANGES = {  # percentages, shares of 1, and errors: what a metric can be
    **dict.fromkeys(("accuracy", "balanced_accuracy", "sensitivity", "specificity", "top5"), (0.0, 100.0)),
    **dict.fromkeys(("auc", "f1", "calibration"), (0.0, 1.0)),
    "brier": (0.0, 2.0),
    **dict.fromkeys(("loss", "mse", "mae"), (0.0, LARGE)),
    "r2": (-LARGE, 1.0),
}


def doubt(answer: Answer, order: Order, norm: float = 0.0, samples: int | None = None) -> str:
    """Return what is wrong with the answer to an order, in a few words; "" where nothing is.

    norm: how far a leg may move its model; 0: any way. samples: as many as its site told; None: it did not.
    """
    given, made = order.model, answer.model
    if wrong := _unlike(made, given) or _unlike(answer.square, given if order.still else {}):
        return wrong
    if samples is not None and answer.samples > samples:
        return f"{answer.samples} samples, where its site told {samples}"
    if not 0 <= answer.steps <= most_steps(order, answer.samples):
        return f"{answer.samples} samples and {answer.steps} steps"
    if norm and not (moved := distance(given, made)) <= norm:
        return f"a displacement of {moved:.3g}, above the limit of {norm:g}"
    return ""


def most_steps(order: Order, samples: int) -> int:
    """Return the most steps that a leg can take at a site of so many samples."""
    return order.local_steps or order.epochs * -(-samples // order.batch_size)


def doubt_sums(sums: Sums, tests: int | None, samples: int | None, *, labelled: bool) -> str:
    """Return what is wrong with a site's sums, in a few words; "" where nothing is.

    tests, samples: the test and training samples that it told in this run before; None: it did not.
    """
    known = {"test": (sums[:3], tests), "train": (sums[3:6], samples)}
    for which, ((loss, right, count), told) in known.items():
        if (labelled and loss < 0) or not 0 <= right <= count:
            return f"a {which} loss of {loss:g} and {right:g} right answers of {count:g}"
        if told is not None and count > told:
            return f"{count:g} {which} samples, where its site told {told}"
    for label, value in sums.metrics.items():
        low, high = metric_range(label)
        if value.numel() != 1 or not (bool(value.isnan().any()) or low <= float(value) <= high):
            return f"a {label} that cannot be"
    return ""


def metric_range(label: str) -> tuple[float, float]:
    """Return the least and the most that a metric can be, with room for rounding."""
    low, high = METRIC_RANGES.get(label, (-LARGE, LARGE))
    return low - ROUNDING, high + ROUNDING


def _unlike(made: Params, given: Params) -> str:
    if made.keys() != given.keys():
        return "other leaves than it was sent"
    for name, leaf in given.items():
        if made[name].dtype != leaf.dtype:
            return f"{name} in {made[name].dtype}, not {leaf.dtype}"
        if made[name].shape != leaf.shape:
            return f"{name} of shape {tuple(made[name].shape)}, not {tuple(leaf.shape)}"
    return "" if all(_finite(leaf) for leaf in made.values()) else "numbers that are not finite"


def _finite(leaf: Tensor) -> bool:
    """A finite sum has finite terms, and is had in one pass; one that is not may be of large ones."""
    return bool(leaf.sum().isfinite()) or bool(leaf.isfinite().all())


def distance(a: Params, b: Params) -> float:
    """The norm of their difference, over all leaves."""
    norms = (torch.linalg.vector_norm(b[n] - leaf) for n, leaf in a.items())
    return math.sqrt(sum(float(each) ** 2 for each in norms))
