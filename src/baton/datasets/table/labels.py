"""What is to be told of a row: its class, or a number."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.datasets.table.columns import Column
from baton.errors import BadInput

FEW, MOST = 20, 1000  # whole numbers that are taken for classes; classes at most, where they are asked for
TASKS = ("classify", "regress")


class Labels(NamedTuple):
    """Of all rows."""

    y: NDArray[np.int64] | NDArray[np.float64]  # [N] classes, or numbers
    classes: tuple[str, ...]  # their names; none: numbers


def labels(column: Column, name: str, task: str) -> Labels:
    """task "": text and a few whole numbers are classes, other numbers are numbers."""
    if task and task not in TASKS:
        raise BadInput(f"dataset: task={task}; classify or regress is right")
    if column.numbers is None:
        assert column.codes is not None
        if task == "regress":
            raise BadInput(f"dataset: task=regress: label={name} holds words ({column.words[0]!r}); numbers are right")
        return _classes(column.codes, column.words, name)
    kinds, codes = np.unique(column.numbers, return_inverse=True)
    whole = bool((kinds == np.floor(kinds)).all())
    if task == "regress" or (not task and not (whole and len(kinds) <= FEW)):
        if len(kinds) < 2:
            raise BadInput(f"dataset: label={name}: every row has {kinds[0]:g}; there is nothing to learn")
        return Labels(column.numbers, ())
    if len(kinds) > MOST:
        raise BadInput(f"dataset: label={name} has {len(kinds):,} classes; task=regress, or {MOST:,} at most, is right")
    return _classes(codes.astype(np.int64), tuple(f"{kind:g}" for kind in kinds), name)


def _classes(codes: NDArray[np.int64], names: tuple[str, ...], name: str) -> Labels:
    used, codes = np.unique(codes, return_inverse=True)  # rows that were dropped may have taken a class with them
    names = tuple(names[i] for i in used)
    if len(names) < 2:
        raise BadInput(f"dataset: label={name}: every row is {names[0]!r}; two classes or more are right")
    if len(names) > MOST:
        raise BadInput(f"dataset: label={name} has {len(names):,} classes; {MOST:,} at most is right")
    sizes = np.bincount(codes)
    if sizes.min() == 1:
        once = names[int(sizes.argmin())]
        raise BadInput(f"dataset: label={name}: {once!r} occurs once; two rows or more of each class are right")
    return Labels(codes.astype(np.int64), names)
