"""A site's own samples: rows of a CSV file with a line of names, or arrays in a safetensors file."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load_file

from baton import regular
from baton.deploy.site import Samples
from baton.errors import BadInput, nearest

TEST = 5  # every fifth row is for testing
FAR = 3.0  # deviations of the plan that a column's mean may be away from the plan's
WIDE = 10.0  # times that its spread may be the plan's, or the plan's be its


def samples(path: Path, data: dict[str, Any] | None, label: str = "") -> Samples:
    """What is in a file. data: what the federation's rows look like; label: the column, where it has another name here.

    Errors are for the site's own people: they name rows and columns, never a value.
    """
    if path.suffix == ".safetensors":
        return _arrays(path)
    if data is None:
        raise BadInput(f"data: {path}: this run's samples are arrays; a .safetensors file with x and y is right")
    return _rows(path, data, label or data["label"])


def unlike_plan(samples: Samples, data: dict[str, Any] | None) -> list[str]:
    """Return a line for each column that is not as the plan says: in other units, most likely.

    Nothing where the plan has no mean and scale, by which its samples are scaled already.
    """
    if data is None or "mean" not in data or "scale" not in data:
        return []
    every = torch.cat([samples.x, samples.test_x]).double()
    lines = []
    for name, values in zip(data["features"], every.T, strict=True):
        mean, spread = float(values.mean()), float(values.std(correction=0))
        far, wide = abs(mean) > FAR, not 1 / WIDE <= (spread or 1.0) <= WIDE  # a site may have one value alone
        what = f"its mean is {mean:.3g} of the plan's deviations from the plan's mean" if far else ""
        what = what or (f"its spread is {spread:.3g} times the plan's" if wide else "")
        if what:
            lines.append(f"{name}: {what}; other units than the federation's?")
    return lines


def _arrays(path: Path) -> Samples:
    try:
        found = load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise BadInput(f"data: {path}: cannot be read ({type(error).__name__})") from None
    for name in ("x", "y"):
        if name not in found:
            raise BadInput(f"data: {path}: no array {name!r}; x and y are right, test_x and test_y beside them")
    x, y = found["x"], found["y"]
    test_x, test_y = found.get("test_x", x[:0]), found.get("test_y", y[:0])
    for one, two in ((x, y), (test_x, test_y)):
        if two.dtype != torch.int64 or one.shape[:1] != two.shape:
            raise BadInput(f"data: {path}: one whole number (int64) of y for each row of x is right")
    return Samples(x, y, test_x, test_y)


def _rows(path: Path, data: dict[str, Any], label: str) -> Samples:
    try:
        text = regular.read(path, field="data").decode("utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"data: no file {str(path)!r}") from None
    except UnicodeDecodeError:
        raise BadInput(f"data: {path}: no text in UTF-8") from None
    header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    names, classes = [name.strip() for name in header], [str(each) for each in data["classes"]]
    for name in (*data["features"], label):
        if name not in names:
            raise BadInput(f"data: {path}: no column {name!r}; {nearest(name, names) if names else 'it is empty'}")
    at, last = [names.index(name) for name in data["features"]], names.index(label)
    x, y = [], []
    for number, row in enumerate((row for row in rows if row), 2):
        if len(row) != len(names):
            raise BadInput(f"data: {path}: line {number} has {len(row)} cells, not {len(names)}")
        if row[last].strip() not in classes:
            raise BadInput(f"data: {path}: line {number}: its {label!r} is none of the federation's classes")
        x.append([_number(path, number, names[i], row[i]) for i in at])
        y.append(classes.index(row[last].strip()))
    if not y:
        raise BadInput(f"data: {path}: no rows")
    values, labels = torch.tensor(x, dtype=torch.float64), torch.tensor(y)
    mean = torch.tensor(data.get("mean", [0.0] * len(at)), dtype=torch.float64)
    scale = torch.tensor(data.get("scale", [1.0] * len(at)), dtype=torch.float64)
    values = ((values - mean) / scale).float()
    test = torch.arange(len(labels)) % TEST == 0
    return Samples(values[~test], labels[~test], values[test], labels[test])


def _number(path: Path, line: int, column: str, cell: str) -> float:
    try:
        found = float(cell)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise BadInput(f"data: {path}: line {line}: its {column!r} is no number")
    return found
