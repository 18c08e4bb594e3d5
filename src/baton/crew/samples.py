"""Data sets on machines that do not have them: as the driver loaded them, one copy a machine, which all share."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from baton import datasets
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.setting import Setting
from baton.usercode import fingerprints

Name = tuple[str, int]  # spec, clients
Packed = tuple[Any, ...]  # a Dataset's fields, tensors as arrays: Ray lays arrays into memory that processes share


def packed(name: Name) -> Packed:
    """A data set that is here, to be sent."""
    return tuple(part.numpy() if isinstance(part, torch.Tensor) else part for part in datasets.load(*name))


def _unpacked(parts: Packed) -> Dataset:
    """The same where it arrived; nobody may write to the arrays, and nobody does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch tells of memory that cannot be written to
        return Dataset._make(torch.from_numpy(part) if isinstance(part, np.ndarray) else part for part in parts)


def lacking(lanes: Sequence[Setting], fetch: Callable[[Name], Packed | None]) -> list[Name]:
    """Data sets that runs need and this machine has not, or has with other samples; fetch: what was sent of one.

    A user's own code has to be here, and the same as where the runs were planned.
    """
    missing = []
    for name, told in {(s.dataset, s.clients): s.made_of.data for s in lanes}.items():
        if not told or _content(name) == told:
            continue
        sent = fetch(name)
        if sent is None:
            missing.append(name)
        else:
            datasets.give(*name, _unpacked(sent))
    for setting in {tuple(s.paths): s for s in lanes if s.theirs}.values():
        if fingerprints(setting.paths) != setting.made_of.code:
            raise BadInput(f"code: {', '.join(setting.paths)} is other code here than where the command was given")
    return missing


def _content(name: Name) -> str | None:
    """Of the samples that lie here; None where there are none."""
    try:
        return datasets.content(*name)
    except BadInput:
        return None
