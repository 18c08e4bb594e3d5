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
        if labels.dim() != 1 or labels.dtype != torch.int64:
            raise wrong(f"{y} of shape {tuple(labels.shape)} in {labels.dtype}", "one torch.int64 a sample")
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
    owner = data.owner
    if owner is not None and not isinstance(owner, Tensor):
        raise wrong(f"owner as a {type(owner).__name__}", "a tensor, or None,")
    if owner is not None and (owner.shape != data.y.shape or owner.dtype != torch.int64):
        raise wrong(f"owner of shape {tuple(owner.shape)} in {owner.dtype}", "one torch.int64 a sample")
    return data._replace(content=of_dataset(data))
