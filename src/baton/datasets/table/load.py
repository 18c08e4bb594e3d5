"""`csv:PATH,label=COLUMN,site=COLUMN`: a table of one's own, without code."""

import hashlib
from pathlib import Path
from typing import Annotated, Any

import torch

from baton.datasets.base import Dataset, Source, cross_entropy, squared_error
from baton.datasets.content import of_dataset
from baton.datasets.decoded import cached
from baton.datasets.table import make, scale, split
from baton.datasets.table.files import File, find, settle
from baton.datasets.table.read import Wanted, read
from baton.errors import BadInput
from baton.names import First

KEPT = 8  # copies of one table: it may be split and scaled in several ways
VERSION = 1  # of what becomes of a table; raised when it changes


def load(
    clients: int,
    *,
    path: Annotated[str, First(settle)],
    label: str = "",
    site: str = "",
    drop: str = "",
    categorical: str = "",
    missing: str = "drop",
    test: float = 0.2,
    test_column: str = "",
    split_seed: int = 0,
    weight: str = "",
    task: str = "",
    scale: str = "pooled",
    encoding: str = "utf-8",
) -> Dataset:
    """A table: .csv, .tsv, .parquet, gzipped or not; or a folder or pattern of one file a site.

    label: the column to tell; site: the one that says whose row it is; drop, categorical: columns joined by +; missing:
    drop the row, or fill with the median; test: the share held back, or test_column; scale: pooled, site or none.
    """
    files = find(path)
    options = make.Options(
        *(label, site, _names(drop), _names(categorical), missing, test, test_column, split_seed, weight, task, scale)
    )
    _check(options, files, encoding)
    try:
        name = f"csv-{hashlib.sha256(str(Path(path).absolute()).encode()).hexdigest()[:8]}"
        how = f"{VERSION}{options}{encoding}{[file.site for file in files]}"
        paths = [file.path.absolute() for file in files]
        kept = cached(name, paths, lambda: decode(files, options, encoding), make.Arrays, _content, how, KEPT)
    except OSError as error:
        raise BadInput(f"dataset: {error.filename or path}: cannot be read ({error.strerror or error})") from None
    return dataset(kept.arrays)._replace(content=kept.content)


def decode(files: list[File], options: make.Options, encoding: str = "utf-8", fast: bool | None = None) -> make.Arrays:
    """The files as arrays."""
    needed = {name: key for key in ("label", "site", "test_column", "weight") if (name := getattr(options, key))}
    for key in ("drop", "categorical"):
        needed |= dict.fromkeys(getattr(options, key), key)
    words = {*options.categorical, options.site, options.test_column}
    wanted = Wanted(needed, frozenset(words), frozenset(options.drop), encoding)
    return make.arrays(read(files, wanted, fast), options)


def dataset(arrays: make.Arrays) -> Dataset:
    """The arrays as a data set, less its content."""
    x, y, test_x, test_y, owner, test_owner, weight = (torch.from_numpy(array) for array in arrays[:-1])
    told = make.unpacked(arrays.told)
    return Dataset(
        x,
        y,
        test_x,
        test_y,
        len(told.classes),
        cross_entropy if told.classes else squared_error,
        owner=owner if told.names else None,
        test_owner=test_owner if told.names else None,
        names=told.names,
        weight=weight if told.weighted else None,
        notes=told.notes,
    )


def _content(arrays: Any) -> str:
    return of_dataset(dataset(arrays))


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split("+"))))


def _check(options: make.Options, files: list[File], encoding: str) -> None:
    """What can be told without reading the rows."""
    if not options.label:
        raise BadInput(f"dataset: csv needs label=COLUMN, the one to tell{_columns(files[0], encoding)}")
    if options.missing not in ("drop", "fill"):
        raise BadInput(f"dataset: missing={options.missing}; drop or fill is right")
    if options.task not in ("", "classify", "regress"):
        raise BadInput(f"dataset: task={options.task}; classify or regress is right")
    scale.check(options.scale)
    split.share(options.test)
    if options.split_seed < 0:
        raise BadInput(f"dataset: split_seed={options.split_seed}; a whole number from 0 up is right")
    if options.site and files[0].site:
        raise BadInput(f"dataset: site={options.site}: each file is a site already; leave site= out, or name one file")
    used: dict[str, str] = {}
    for key in ("label", "site", "test_column", "weight"):
        name = getattr(options, key)
        if name and name in used:
            raise BadInput(f"dataset: {key}={name} is the {used[name]} column too; another one is right")
        used |= {name: key} if name else {}
    for key in ("drop", "categorical"):
        for name in getattr(options, key):
            if name in used:
                raise BadInput(f"dataset: {key}={name} is the {used[name]} column; leave one of them out")


def _columns(file: File, encoding: str) -> str:
    """The columns there are, for the end of an error line."""
    from baton.datasets.table import plain

    if file.parquet:
        return ""
    return f" of: {', '.join(plain.header(file, encoding).names)}"


CSV = Source(load, model="logistic", clients=0)
