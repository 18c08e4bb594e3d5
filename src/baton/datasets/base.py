"""What a data set is."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Optimum(NamedTuple):
    """Where a quadratic objective F(x) = (x - x*)' A (x - x*) / 2 + F* is smallest."""

    x: Tensor  # [d]
    hessian: Tensor  # [d, d] A


class Dataset(NamedTuple):
    """Training and test samples, and what one sample costs."""

    x: Tensor  # [N, ...] as stored: images stay uint8
    y: Tensor  # [N] int64; zeros where samples carry no label; floats where a number is to be told (regression)
    test_x: Tensor  # [n, ...]
    test_y: Tensor  # [n]
    classes: int  # 0: no labels, or numbers instead of classes: no accuracy
    loss: Callable[[Tensor, Tensor], Tensor]  # (model output [b, ...], y [b]) -> [b]
    augment: Callable[[Tensor, Tensor], Tensor] | None = None  # (stored x [b, ...], key) -> x, fresh at each access
    prepare: Callable[[Tensor, torch.dtype], Tensor] | None = None  # stored x -> model input, e.g. normalised
    owner: Tensor | None = None  # [N] the client each sample belongs to by nature
    optimum: Optimum | None = None
    content: str = ""  # 16 hex digits of the samples; "": the spec alone says what they are
    test_owner: Tensor | None = None  # [n] the client each test sample belongs to by nature
    names: tuple[str, ...] = ()  # of those clients, where they have any: hospitals
    weight: Tensor | None = None  # [N] what each training sample counts; None: all alike
    notes: tuple[str, ...] = ()  # what a person should know about it, said once


def cross_entropy(output: Tensor, y: Tensor) -> Tensor:
    """What classifying one sample costs: logits [b, classes], y [b] -> [b]; of two classes one logit [b, 1] will do."""
    if output.shape[-1] == 1:
        return functional.binary_cross_entropy_with_logits(output.squeeze(-1), y.to(output.dtype), reduction="none")
    return functional.cross_entropy(output, y, reduction="none")


def squared_error(output: Tensor, y: Tensor) -> Tensor:
    """What telling one number costs: output [b, 1], y [b] -> [b]."""
    return (output.squeeze(-1) - y).square()


def prepared(data: Dataset, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Stored samples as the model takes them."""
    return x.to(dtype) if data.prepare is None else data.prepare(x, dtype)


def tells_numbers(data: Dataset) -> bool:
    """Whether a number, not a class, is to be told of each sample."""
    return data.classes == 0 and data.y.is_floating_point()


def by_spec() -> str:
    """The content of a data set that Baton makes from its spec."""
    return ""


class Source(NamedTuple):
    """How a data set is loaded, and the settings that go with it unless others are given.

    load(clients, *, options) -> Dataset. Lanes whose specs differ only outside `shape` share one program. With
    clients = 0 the samples do not depend on M: they are loaded once, and `datasets.sites` tells how many sites they
    come from; the partition is then `natural`, or `iid` over 10 clients where they come from nowhere.
    """

    load: Callable[..., Dataset]
    model: str
    clients: int  # 0: as many as its samples have sites
    partition: str = "iid"
    dtype: str = "float32"
    shape: tuple[str, ...] | None = None  # options that fix the sample's shape; None: all of them
    content: Callable[[], str] | None = None  # a Dataset's, without loading it; None: it has to be loaded
    sited: bool = False  # whether `clients` is the number of its sites, and no other
