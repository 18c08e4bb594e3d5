"""From columns to arrays: rows that count, who they belong to, what is held back, what a model takes, what is told."""

import json
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.datasets.table import scale as scales
from baton.datasets.table.columns import DECIMAL_COMMA, Column, decimal_comma
from baton.datasets.table.features import Rows, features, listed
from baton.datasets.table.labels import Labels, labels
from baton.datasets.table.read import Table
from baton.datasets.table.split import held_back
from baton.errors import BadInput

TRUE, FALSE = ("test", "1", "true", "yes", "t"), ("train", "0", "false", "no", "f")
UNLIKE = 10  # times as many rows at the largest site as at the smallest: worth a word


class Options(NamedTuple):
    """What is to become of a table."""

    label: str
    site: str = ""
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: str = "drop"
    test: float = 0.2
    test_column: str = ""
    split_seed: int = 0
    weight: str = ""
    task: str = ""
    scale: str = "pooled"


class Arrays(NamedTuple):
    """A table as it is kept."""

    x: NDArray[np.float32]  # [N, features]
    y: NDArray[np.int64] | NDArray[np.float32]  # [N]
    test_x: NDArray[np.float32]  # [n, features]
    test_y: NDArray[np.int64] | NDArray[np.float32]  # [n]
    owner: NDArray[np.int64]  # [N] -1: there are no sites
    test_owner: NDArray[np.int64]  # [n]
    weight: NDArray[np.float32]  # [N]
    told: NDArray[np.uint8]  # Told, as JSON


class Told(NamedTuple):
    """What is no array."""

    classes: tuple[str, ...]
    names: tuple[str, ...]  # of sites
    features: tuple[str, ...]
    weighted: bool
    notes: tuple[str, ...]

    def packed(self) -> NDArray[np.uint8]:
        """As an array of bytes."""
        return np.frombuffer(json.dumps(self).encode(), np.uint8).copy()


def unpacked(told: NDArray[np.uint8]) -> Told:
    """What `packed` made."""
    classes, names, labels, weighted, notes = json.loads(told.tobytes())
    return Told(tuple(classes), tuple(names), tuple(labels), bool(weighted), tuple(notes))


def arrays(table: Table, options: Options) -> Arrays:
    """All of it. The table's columns are used up."""
    columns, notes = dict(table.columns), list[str]()
    _refuse_decimal_commas(columns, options)
    if table.unnamed:
        notes.append("the first column has no name: taken for row numbers and left out")
    columns, site, names = _kept(columns, table, options, notes)
    own = np.zeros(len(columns[options.label].missing()), np.int64) if site is None else site
    found = labels(columns.pop(options.label), options.label, options.task)
    weight = _weight(columns.pop(options.weight), options.weight) if options.weight else None
    split = columns.pop(options.test_column) if options.test_column else None
    strata = found.y if found.classes else np.zeros(len(own), np.int64)
    test = (
        held_back(strata.astype(np.int64), own, names or ("",), options.test, options.split_seed)
        if split is None
        else _said(split, options.test_column)
    )
    both_sides(test, own, names, found, notes)
    if not columns:
        raise BadInput("dataset: no columns are left to learn from; the label, the site and what is dropped are all")
    made = features(columns, Rows(own, max(1, len(names)), test), options.scale)
    y = _scaled(found, own, test, options, notes)
    head = _head(len(test), len(made.names), options, found, names)
    told = Told(found.classes, names, made.names, weight is not None, (head, *notes, *made.notes))
    owner = own if names else np.full(len(own), -1)
    each = (np.ones(len(own)) if weight is None else weight).astype(np.float32)
    return Arrays(made.x[~test], y[~test], made.x[test], y[test], owner[~test], owner[test], each[~test], told.packed())


def _refuse_decimal_commas(columns: dict[str, Column], options: Options) -> None:
    """Raise BadInput if a column that would be taken as words holds numbers with a decimal comma."""
    for name, column in columns.items():
        if name not in (*options.categorical, options.site, options.test_column) and column.words:
            found = [word for word in column.words if DECIMAL_COMMA.fullmatch(word)]
            if 2 * len(found) > len(column.words):
                raise BadInput(f"dataset: {decimal_comma(name, found[0])}")


def _kept(
    columns: dict[str, Column], table: Table, options: Options, notes: list[str]
) -> tuple[dict[str, Column], NDArray[np.int64] | None, tuple[str, ...]]:
    """Rows that can be used: their columns, their sites and those sites' names."""
    own = columns.pop(options.site) if options.site else None
    site, names = (own.codes, own.words) if own is not None else (table.site, table.names)
    rows = len(next(iter(columns.values())).missing()) if columns else 0
    must = {
        name: columns[name].missing() for name in filter(None, (options.label, options.weight, options.test_column))
    }
    if own is not None:
        must[options.site] = own.missing()
    empty = [name for name, column in columns.items() if name not in must and column.missing().all()]
    if empty:
        raise BadInput(f"dataset: column {empty[0]!r} has no values; drop={empty[0]} is right")
    if options.missing == "drop":
        must |= {name: gone for name, column in columns.items() if (gone := column.missing()).any()}
    gone = np.zeros(rows, dtype=bool)
    for each in must.values():
        gone |= each
    if gone.any():
        by = sorted(((int(each.sum()), name) for name, each in must.items() if each.any()), reverse=True)
        what = listed([f"{name} {count:,}" for count, name in by])
        if gone.all():
            raise BadInput(f"dataset: every row has a missing value ({what}); drop= or missing=fill is right")
        notes.append(f"{int(gone.sum()):,} of {rows:,} rows dropped for missing values ({what})")
        stay = np.flatnonzero(~gone)
        for name in columns:  # one by one, so that only one is there twice
            columns[name] = columns[name].take(stay)
        site = None if site is None else site[stay]
    if site is None:
        return columns, None, ()
    counts = np.bincount(site, minlength=len(names))
    if not counts.all():
        raise BadInput(f"dataset: site {names[int(counts.argmin())]!r} has no rows left; missing=fill keeps them")
    return columns, site.astype(np.int64), tuple(names)


def _weight(column: Column, name: str) -> NDArray[np.float64]:
    """What rows count, on a scale on which the least is 1: only ratios matter, and a batch sums to 1 or more."""
    if column.numbers is None:
        raise BadInput(f"dataset: weight={name} holds words ({column.words[0]!r}); numbers are right")
    return least_one(column.numbers, f"weight={name}")


def least_one(weight: NDArray[np.float64], what: str) -> NDArray[np.float64]:
    """Weights over the least that is not 0."""
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise BadInput(f"dataset: {what}: from {weight.min():g} to {weight.max():g}; 0 or more, not all 0, is right")
    scaled: NDArray[np.float64] = weight / weight[weight > 0].min()
    return scaled


def _said(column: Column, name: str) -> NDArray[np.bool_]:
    """Which rows a column says are for testing."""
    assert column.codes is not None
    for word in column.words:
        if word.lower() not in TRUE + FALSE:
            raise BadInput(f"dataset: test_column={name} has {word!r}; test or train, 1 or 0, true or false is right")
    test: NDArray[np.bool_] = np.array([word.lower() in TRUE for word in column.words])[column.codes]
    if test.all() or not test.any():
        raise BadInput(f"dataset: test_column={name} has every row on one side; some of each are right")
    return test


def both_sides(
    test: NDArray[np.bool_], site: NDArray[np.int64], names: tuple[str, ...], found: Labels, notes: list[str]
) -> None:
    """Whether there is something to train and to test on, at every site too; and what is odd about sites."""
    if not test.any():
        raise BadInput(f"dataset: {len(test)} rows are too few to hold any back for testing")
    train = np.bincount(site[~test], minlength=max(1, len(names)))
    if names and not train.all():
        raise BadInput(
            f"dataset: site {names[int(train.argmin())]!r} has no training rows; leave it out, or give it some"
        )
    if found.classes:
        held = np.bincount(found.y[~test].astype(np.int64), minlength=len(found.classes))
        if not held.all():
            raise BadInput(f"dataset: class {found.classes[int(held.argmin())]!r} has no training rows")
    if not names:
        return
    tested = np.bincount(site[test], minlength=len(names))
    if not tested.all():
        notes.append(f"sites without test rows: {listed([n for n, c in zip(names, tested, strict=True) if not c])}")
    if found.classes:
        kinds = len(found.classes)
        pairs = np.unique(
            site[~test] * kinds + found.y[~test].astype(np.int64)
        )  # (site, class): one sort for all sites
        classes = np.bincount(pairs // kinds, minlength=len(names))
        single = [n for n, c in zip(names, classes.tolist(), strict=True) if c == 1]
        if single:
            notes.append(f"sites with one class only: {listed(single)}")
    if train.max() >= UNLIKE * train.min():
        least, most = int(train.argmin()), int(train.argmax())
        sizes = f"{names[least]} has {train[least]:,} training rows, {names[most]} {train[most]:,}"
        notes.append(f"sites of very different size: {sizes}")


def _scaled(
    found: Labels, site: NDArray[np.int64], test: NDArray[np.bool_], options: Options, notes: list[str]
) -> NDArray[np.int64] | NDArray[np.float32]:
    """Labels as they are told: numbers over all sites' deviation, so that a loss of 1 is no better than the mean."""
    if found.classes or options.scale == "none":
        return found.y if found.classes else found.y.astype(np.float32)  # type: ignore[return-value]
    return scaled_label(found.y.astype(np.float64), test, options.label, notes)


def scaled_label(y: NDArray[np.float64], test: NDArray[np.bool_], name: str, notes: list[str]) -> NDArray[np.float32]:
    """Return numbers to tell less the mean and over the deviation of the training rows; the note says by what."""
    own = scales.moments(y[~test], np.zeros(int((~test).sum()), np.int64), 1, "pooled")
    notes.append(f"label {name!r} less {own.mean[0]:.6g}, over {own.deviation[0]:.6g}: a loss of 1 is that of its mean")
    return own.of(y, np.zeros(len(y), np.int64)).astype(np.float32)


def _head(rows: int, width: int, options: Options, found: Labels, names: tuple[str, ...]) -> str:
    """The first line: what it was taken for."""
    kinds = (
        f"{len(found.classes)} classes ({listed(list(found.classes))})" if found.classes else "a number (regression)"
    )
    where = f", {len(names)} sites" if names else ""
    how = scales.SCALES[options.scale]
    return f"{rows:,} rows{where}; label {options.label!r}: {kinds}; {width} features, numbers {how}"
