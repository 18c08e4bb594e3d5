"""A reply is checked before it is believed."""

import math

import torch

from baton.lanes import Params
from baton.sites.visit import Answer, Order


def doubt(answer: Answer, order: Order, norm: float = 0.0) -> str:
    """What is wrong with the answer to an order, in a few words; "" where nothing is.

    norm: how far a leg may move its model; 0: any way.
    """
    given, made = order.model, answer.model
    if made.keys() != given.keys():
        return "other leaves than it was sent"
    for name, leaf in given.items():
        if made[name].dtype != leaf.dtype:
            return f"{name} in {made[name].dtype}, not {leaf.dtype}"
        if made[name].shape != leaf.shape:
            return f"{name} of shape {tuple(made[name].shape)}, not {tuple(leaf.shape)}"
    if not all(bool(leaf.isfinite().all()) for leaf in made.values()):
        return "numbers that are not finite"
    if answer.samples < 0 or not 0 <= answer.steps <= order.local_steps:
        return f"{answer.samples} samples and {answer.steps} steps"
    moved = distance(given, made)
    if norm and not moved <= norm:
        return f"a displacement of {moved:.3g}, above the limit of {norm:g}"
    return ""


def distance(a: Params, b: Params) -> float:
    """The norm of their difference, over all leaves."""
    return math.sqrt(sum(float(torch.linalg.vector_norm((b[n] - leaf).double())) ** 2 for n, leaf in a.items()))
