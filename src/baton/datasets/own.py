"""A user's own data set, held to what a data set is."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from baton.datasets.base import Dataset
from baton.datasets.content import of_dataset
from baton.errors import BadInput
from baton.usercode import place


def checked(data: object, name: str, loader: Callable[..., Any]) -> Dataset:
    """What a user's loader made, refused in one line where it is no data set."""

    def wrong(what: str, right: str) -> BadInput:
        return BadInput(f"dataset: {name!r} gives {what}; {right} is right{place(name, loader)}")

    if not isinstance(data, Dataset):
        raise wrong(f"a {type(data).__name__}", "a Dataset")
    for field in ("x", "y", "test_x", "test_y"):
        if not isinstance(getattr(data, field), Tensor):
            raise wrong(f"{field} as a {type(getattr(data, field)).__name__}", "a tensor")
    if type(data.classes) is not int or data.classes < 0:
        raise wrong(f"classes={data.classes!r}", "a number, 0 where there are no labels,")
    for x, y in (("x", "y"), ("test_x", "test_y")):
        samples, labels = getattr(data, x), getattr(data, y)
        kind = labels.dtype == torch.int64 or (labels.is_floating_point() and not data.classes)
        if labels.dim() != 1 or not kind:
            right = "one torch.int64 a sample" if data.classes else "one torch.int64, or one number to tell, a sample"
            raise wrong(f"{y} of shape {tuple(labels.shape)} in {labels.dtype}", right)
        if samples.shape[:1] != labels.shape or not len(labels):
            rows = len(samples) if samples.dim() else "no"
            raise wrong(f"{rows} rows of {x} and {len(labels)} of {y}", "as many, at least one,")
        if data.classes and not 0 <= int(labels.min()) <= int(labels.max()) < data.classes:
            raise wrong(f"{y} from {int(labels.min())} to {int(labels.max())}", f"0 to {data.classes - 1}")
    if data.x.shape[1:] != data.test_x.shape[1:]:
        shapes = f"x of {tuple(data.x.shape[1:])} and test_x of {tuple(data.test_x.shape[1:])}"
        raise wrong(f"samples {shapes}", "the same shape")
    for field in ("loss", "augment", "prepare"):
        given = getattr(data, field)
        if not callable(given) and (given is not None or field == "loss"):
            raise wrong(f"{field} as a {type(given).__name__}", "a function")
    for field, like in (("owner", data.y), ("test_owner", data.test_y)):
        owner = getattr(data, field)
        if owner is not None and not isinstance(owner, Tensor):
            raise wrong(f"{field} as a {type(owner).__name__}", "a tensor, or None,")
        if owner is not None and (owner.shape != like.shape or owner.dtype != torch.int64):
            raise wrong(f"{field} of shape {tuple(owner.shape)} in {owner.dtype}", "one torch.int64 a sample")
    return _weighed(data, wrong)._replace(content=of_dataset(data))


def _weighed(data: Dataset, wrong: Callable[[str, str], BadInput]) -> Dataset:
    """Weights on a scale on which the least is 1: only ratios matter, and a batch sums to 1 or more."""
    weight = data.weight
    if weight is None:
        return data
    if not isinstance(weight, Tensor) or weight.shape != data.y.shape or not weight.is_floating_point():
        raise wrong("a weight that is not one number a training sample", "a tensor like y, of floats, or None,")
    if not bool(weight.isfinite().all() and (weight >= 0).all() and weight.any()):
        raise wrong(f"weight from {weight.min():g} to {weight.max():g}", "0 or more, not all 0,")
    return data._replace(weight=weight / weight[weight > 0].min())
