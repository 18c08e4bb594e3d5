"""The paper's tables as CSV, in Baton's words, so that a report can set its own numbers beside them.

`sequential` is SFL, `parallel` is PFL; `clip` 0 is none; learning rates are those that were trained with (appendix E.3:
the heads say 10^-1.5, which is 0.03 "in fact"); `marked` is 1 where the paper colours or bolds a number; `partition` is
C of ExDir(C, 10).
"""

import csv
from functools import cache
from importlib.resources import files
from math import isclose
from typing import Any

from baton.errors import BadInput, nearest

TABLES: dict[str, tuple[str, str]] = {  # name -> (what it is, the paper's label)
    "bounds": ("upper bounds of both algorithms in three cases", "tab:comparison"),
    "quadratics": (
        "the quadratic clients F_m = a x^2 + b x of the simulations",
        "tab:simulation settings, tab:app:simulation settings",
    ),
    "cross_device": ("test accuracy on CIFAR-10 and CINIC-10", "tab:cross-device settings"),
    "notation": ("symbols of split learning", "table:app:notations of SL"),
    "clipping": ("test accuracy after 1000 rounds by clip and learning rate", "tab:app:gradient clipping"),
    "clipping_long": ("the best learning rate of each clip, short and long run", "tab2:app:gradient clipping"),
    "fine": ("candidate learning rates in the long run, and the one chosen", "tab:app:fine-grained search"),
    "choices": ("learning rates of the published runs on ResNet-18 and CINIC-10, from the authors' code", ""),
    "grid": ("test accuracy after 1000 rounds by learning rate", "tab:app:coarse-grained search"),
    "results": ("test accuracy of all settings", "tab:app:cross-device settings"),
}


def table(name: str) -> list[dict[str, Any]]:
    """A table's rows; a column is all whole numbers, all numbers or all text, and None where the paper says nothing."""
    if name not in TABLES:
        raise BadInput(f"paper: no table named {name!r}; {nearest(name, TABLES)}")
    return [dict(row) for row in _rows(name)]


def lookup(name: str, **fields: Any) -> list[dict[str, Any]]:
    """The rows whose columns equal the given fields."""
    rows = table(name)
    for field in fields:
        if field not in rows[0]:
            raise BadInput(f"paper: table {name} has no column {field!r}; {nearest(field, rows[0])}")
    return [row for row in rows if all(_equal(row[field], value) for field, value in fields.items())]


@cache
def _rows(name: str) -> tuple[dict[str, Any], ...]:
    text = files("baton.paper").joinpath(f"{name}.csv").read_text("utf-8")
    header, *lines = csv.reader(text.splitlines())
    columns = [_typed(column) for column in zip(*lines, strict=True)]
    return tuple(dict(zip(header, values, strict=True)) for values in zip(*columns, strict=True))


def _typed(cells: tuple[str, ...]) -> list[Any]:
    """A column as int where all of it is, else as float, else as text."""
    for kind in (int, float):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except ValueError:
            pass
    return [cell or None for cell in cells]


def _equal(a: Any, b: Any) -> bool:
    """Numbers up to rounding, 10**-1.5 being one of them; all else exactly."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return isclose(a, b, rel_tol=1e-9)
    return bool(a == b)
