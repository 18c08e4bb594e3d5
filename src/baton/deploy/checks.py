"""A reply is checked before it is believed."""

import math

import torch
from torch import Tensor

from baton.lanes import Params
from baton.sites.visit import Answer, Order


def doubt(answer: Answer, order: Order, norm: float = 0.0) -> str:
    """What is wrong with the answer to an order, in a few words; "" where nothing is.

    norm: how far a leg may move its model; 0: any way.
    """
    given, made = order.model, answer.model
    if wrong := _unlike(made, given) or _unlike(answer.square, given if order.still else {}):
        return wrong
    most = order.local_steps or math.inf  # of passes it depends on its samples
    if answer.samples < 0 or not 0 <= answer.steps <= most:
        return f"{answer.samples} samples and {answer.steps} steps"
    if norm and not (moved := distance(given, made)) <= norm:
        return f"a displacement of {moved:.3g}, above the limit of {norm:g}"
    return ""


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
