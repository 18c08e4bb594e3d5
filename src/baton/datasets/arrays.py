"""Samples that are arrays already: checked, their labels and sites told apart, some held back for testing."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from baton.datasets.base import Dataset, cross_entropy, squared_error
from baton.datasets.content import of_dataset
from baton.datasets.images import Normaliser
from baton.datasets.table import scale as scales
from baton.datasets.table.columns import LARGEST, Column
from baton.datasets.table.labels import Labels, labels
from baton.datasets.table.make import both_sides, least_one, scaled_label
from baton.datasets.table.split import held_back
from baton.errors import BadInput

BLOCK = 1 << 12  # images whose pixels are summed at once

Array = NDArray[Any]


class Part(NamedTuple):
    """Samples, what is to be told of each, and whose they are."""

    x: Array  # [N, ...]
    y: Array  # [N]
    site: Array | None = None  # [N] names or numbers


def plain(value: Any, what: str) -> Array:
    """NumPy's own, of a tensor, a data frame, a series or a list."""
    if np.ma.isMaskedArray(value) and np.ma.getmaskarray(value).any():
        raise BadInput(f"data: {what}: got a masked array; expected one without masked values: leave out or fill them")
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    elif hasattr(value, "to_numpy"):
        value = value.to_numpy()
    try:
        found = np.asarray(value)
    except ValueError:
        raise BadInput(f"data: {what} is ragged; an array is right") from None
    if found.dtype.kind == "c":
        raise BadInput(f"data: {what}: got complex numbers; expected real ones, such as x.real or abs(x)")
    if found.ndim < 1 or not len(found):
        raise BadInput(f"data: {what} has the shape {found.shape}; a row a sample, at least one, is right")
    return found


def made(
    train: Part,
    test: Part | float,
    weight: Array | None = None,
    split_seed: int = 0,
    task: str = "",
    scale: str = "pooled",
) -> Dataset:
    """A data set; test: samples to test on, or the share of each site and class that is held back.

    scale: of columns of x [N, features] and of a regression's labels, as a table's: pooled, site or none.
    """
    scales.check(scale)
    given = None if isinstance(test, float) else test
    parts = [train] if given is None else [train, given]
    x = [_samples(part.x, f"{where}x") for part, where in zip(parts, ("", "test_"), strict=False)]
    if given is not None and x[0].shape[1:] != x[1].shape[1:]:
        raise BadInput(f"data: x has samples of {x[0].shape[1:]}, test_x of {x[1].shape[1:]}; the same shape is right")
    for part, where in zip(parts, ("", "test_"), strict=False):
        for field in ("y", "site"):
            own = getattr(part, field)
            if own is not None and own.shape != (len(part.x),):
                raise BadInput(
                    f"data: {where}{field} has the shape {own.shape}; one for each of {len(part.x)} is right"
                )
    told = _labels(np.concatenate([part.y for part in parts]), task)
    site, names = _sites(parts)
    count = len(train.x)
    own = np.zeros(len(told.y), np.int64) if site is None else site
    held = np.arange(len(told.y)) >= count
    if isinstance(test, float):
        strata = told.y if told.classes else np.zeros(len(own), np.int64)
        held = held_back(strata.astype(np.int64), own, names or ("",), test, split_seed)
    notes: list[str] = []
    tested = own is not None and all(part.site is not None for part in parts)
    both_sides(held, own, names if tested else (), told, notes)
    if x[0].ndim == 2:
        x = _scaled(x, own, max(1, len(names)), held, scale)
        notes.insert(0, f"numbers {scales.SCALES[scale]}")
    if not told.classes and scale != "none":
        told = told._replace(y=scaled_label(told.y.astype(np.float64), held, "y", notes).astype(np.float64))
    return _dataset(x, told, site, names, held, weight, tuple(notes))


def _scaled(x: list[Array], site: NDArray[np.int64], sites: int, held: NDArray[np.bool_], scale: str) -> list[Array]:
    """Return x with each column less its mean and over its deviation, both of training rows."""
    if scale == "none":
        return x
    if scale == "site" and (site < 0).any():
        raise BadInput("data: scale: got 'site', and test samples have no sites; expected 'pooled' or 'none'")
    whole = np.concatenate(x)
    made = np.empty_like(whole)
    for column in range(whole.shape[1]):
        values = whole[:, column].astype(np.float64)
        found = scales.moments(values[~held], site[~held], sites, scale)
        made[:, column] = found.of(values, site)
    return np.split(made, [len(x[0])]) if len(x) > 1 else [made]


def _dataset(
    x: list[Array],
    told: Labels,
    site: NDArray[np.int64] | None,
    names: tuple[str, ...],
    held: NDArray[np.bool_],
    weight: Array | None,
    notes: tuple[str, ...],
) -> Dataset:
    train, test = (x[0], x[1]) if len(x) > 1 else (x[0][~held], x[0][held])
    y = told.y if told.classes else told.y.astype(np.float32)
    owner = None if site is None else torch.from_numpy(site)
    counts = None if weight is None else _weight(weight, len(x[0]), held)
    kinds = f"{len(told.classes)} classes" if told.classes else "a number to tell (regression)"
    where = f", {len(names)} sites" if names else ""
    head = f"{len(train):,} training and {len(test):,} test samples of {tuple(train.shape[1:])}{where}; {kinds}"
    data = Dataset(
        torch.from_numpy(np.ascontiguousarray(train)),
        torch.from_numpy(y[~held]),
        torch.from_numpy(np.ascontiguousarray(test)),
        torch.from_numpy(y[held]),
        len(told.classes),
        cross_entropy if told.classes else squared_error,
        prepare=_normaliser(train) if train.dtype == np.uint8 else None,
        owner=None if owner is None else owner[~held],
        test_owner=None if owner is None or bool((owner[held] < 0).any()) else owner[held],
        names=names,
        weight=counts,
        notes=(head, *notes),
    )
    return data._replace(content=of_dataset(data))


def _samples(x: Array, what: str) -> Array:
    """Bytes of images [n, C, H, W], or floats of any shape; all finite."""
    if x.ndim < 2:
        raise BadInput(
            f"data: {what} has the shape {x.shape}; (samples, features) or (samples, channels, ...) is right"
        )
    if x.dtype == np.uint8 and x.ndim >= 3:
        if x.ndim == 3:
            return x[:, None]
        last = x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3)
        return x.transpose(0, 3, 1, 2) if last and x.ndim == 4 else x
    if x.dtype.kind not in "fiub":
        try:
            x = x.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise BadInput(f"data: {what} holds what is no number ({error}); csv: takes columns of words") from None
    if x.dtype.kind == "f" and x.dtype.itemsize > 4:
        with np.errstate(invalid="ignore"):
            large = np.isfinite(x) & (np.abs(x) > LARGEST)
        if large.any():
            row, column = divmod(int(large.reshape(-1).argmax()), x[0].size)
            value = x.reshape(len(x), -1)[row, column]
            right = f"expected numbers of at most {LARGEST:.2g}, which is what float32 holds"
            raise BadInput(f"data: {what}: got {value:g} in row {row}, column {column}; {right}")
    x = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    if not np.isfinite(x).all():
        row = int(np.argmin(np.isfinite(x.reshape(len(x), -1)).all(1)))
        raise BadInput(f"data: {what} has a value in row {row} that is NaN or infinite; finite numbers are right")
    return x


def _labels(y: Array, task: str) -> Labels:
    if y.dtype.kind in "OUS":
        words, codes = np.unique(y.astype(str), return_inverse=True)
        return labels(Column(None, codes.astype(np.int64), tuple(words.tolist())), "y", task)
    numbers = y.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise BadInput(f"data: y has {numbers[row]} in row {row}; finite numbers are right")
    if (np.abs(numbers) > LARGEST).any():
        row = int(np.abs(numbers).argmax())
        raise BadInput(f"data: y: got {numbers[row]:g} in row {row}; expected numbers of at most {LARGEST:.2g}")
    whole = y.dtype.kind in "iub" and not task
    return labels(Column(numbers, None), "y", "classify" if whole else task)


def _sites(parts: list[Part]) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    """[N + n] the site of each sample, -1 where a test sample has none; their names."""
    own = parts[0].site
    if own is None:
        if len(parts) > 1 and parts[1].site is not None:
            raise BadInput(
                "data: the test samples have sites and the training samples have none; both or none is right"
            )
        return None, ()
    kinds, site = np.unique(own, return_inverse=True)
    site = site.astype(np.int64)
    if len(parts) > 1:
        tested = np.full(len(parts[1].x), -1) if parts[1].site is None else _known(parts[1].site, kinds)
        site = np.concatenate([site, tested])
    return site, tuple(str(kind) for kind in kinds.tolist())


def _known(site: Array, kinds: Array) -> NDArray[np.int64]:
    place = {kind: i for i, kind in enumerate(kinds.tolist())}
    odd = next((each for each in site.tolist() if each not in place), None)
    if odd is not None:
        raise BadInput(
            f"data: site {str(odd)!r} has test samples and no training samples; leave it out, or give it some"
        )
    return np.array([place[each] for each in site.tolist()], np.int64)


def _weight(weight: Array, count: int, held: NDArray[np.bool_]) -> torch.Tensor:
    """Of training samples."""
    if weight.shape != (count,) or weight.dtype.kind not in "fiub":
        raise BadInput(f"data: weight has the shape {weight.shape} in {weight.dtype}; {count} numbers are right")
    kept = weight[~held[:count]].astype(np.float64)
    return torch.from_numpy(least_one(kept, "weight").astype(np.float32))


def _normaliser(x: Array) -> Normaliser:
    """Mean and deviation of each channel over the training images' pixels, in [0, 1]."""
    total, squares, count = np.zeros(x.shape[1]), np.zeros(x.shape[1]), 0
    rest = tuple(axis for axis in range(x.ndim) if axis != 1)
    for at in range(0, len(x), BLOCK):
        block = x[at : at + BLOCK].astype(np.float64) / 255
        total += block.sum(rest)
        squares += (block**2).sum(rest)
        count += block.size // x.shape[1]
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0))
    return Normaliser(tuple(mean.tolist()), tuple(np.where(std > 1e-6, std, 1.0).tolist()))
