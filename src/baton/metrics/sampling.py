"""How far the draw of test rows may have moved a metric: by values of rows, DeLong's placements or a bootstrap."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from baton.metrics.base import Metric
from baton.verdict import RowErrors, by_draws, by_row

DRAWS = 500  # of a bootstrap
LEAST = 10  # rows of a class, or of a class at a site, that AUC and what is bootstrapped take
FEWEST = 2  # rows of a site, or of a class, that a mean takes
NUMBERS = 4_000_000  # sums that are looked at together

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TestRows:
    """The rows of a test set, and whose they are where a metric is a mean over sites."""

    name: str  # of the test set: models that answer the same one are paired
    labels: Tensor  # [n]
    classes: int  # 0: numbers
    owner: Tensor | None = None  # [n] the site of each row, from 0; sites and more: nobody's
    sites: int = 0  # of owner
    held: Tensor | None = None  # [k, C] the classes each site holds, where its rows are all of them
    only: int | None = None  # the class whose rows count; None: all


def row_errors(metric: Metric, outputs: Tensor, rows: TestRows) -> list[RowErrors] | str:
    """Return the row errors of each lane's metric, or why there are none. outputs: [L, n, ...]."""
    if metric.each is not None:
        return _of_means(metric.each(outputs, rows.labels).numpy(), rows)
    if metric.ranks is not None:
        return _of_ranks(metric.ranks(outputs), rows)
    if metric.marks is not None and metric.sums is not None:
        return _of_sums(metric, outputs, rows)
    return "this metric gives no number for a single row, so that what other test rows would give is not known"


def _of_means(values: Floats, rows: TestRows) -> list[RowErrors] | str:
    """values: [L, n]."""
    labels = rows.labels.numpy()
    if rows.owner is not None:
        own = rows.owner.numpy()
        strata = np.where((own >= 0) & (own < rows.sites), own, rows.sites)
        count = np.bincount(strata, minlength=rows.sites + 1)[: rows.sites]
        share = np.append(1 / np.maximum(count, 1) / max(1, (count > 0).sum()), 0.0)
    elif rows.held is not None:
        strata, held = labels, rows.held.double().numpy()
        count = np.bincount(labels, minlength=rows.classes)
        sizes = held @ count  # [k]
        there = sizes > 0
        share = (held[there] / sizes[there, None]).sum(0) / max(1, there.sum())
    elif rows.only is not None:
        strata = (labels != rows.only).astype(np.int64)
        count = np.bincount(strata, minlength=2)[:1]
        share = np.array([1 / max(1, count[0]), 0.0])
    else:
        strata, count, share = np.zeros(len(labels), np.int64), np.array([len(labels)]), np.array([1 / len(labels)])
    if why := _too_few(count[count > 0], FEWEST, "site" if rows.owner is not None else "class"):
        return why
    weight = share[strata]
    return [by_row(lane, strata=strata, weight=weight, test_set=rows.name) for lane in values]


def _too_few(count: NDArray[np.int64], least: int, what: str) -> str:
    """Why these strata are too small; "" where they are not."""
    if not len(count) or count.min() < least:
        n = int(count.min()) if len(count) else 0
        return f"the smallest {what} has {n} test row{'' if n == 1 else 's'}, and an interval takes {least} or more"
    return ""


def _of_ranks(scores: Tensor, rows: TestRows) -> list[RowErrors] | str:
    """DeLong's, of AUC; scores: [L, n, C]."""
    labels, classes = rows.labels, rows.classes
    if rows.owner is None:
        count = torch.bincount(labels, minlength=classes)
        strata = labels.numpy()
        shares = _pair_shares(count, torch.ones(1, classes) if rows.held is None else rows.held)
        values = _placed(scores, labels, shares)
    else:
        values, cells = torch.zeros(scores.shape[:2], dtype=torch.float64), rows.sites * classes
        inside = (rows.owner >= 0) & (rows.owner < rows.sites)
        place = torch.where(inside, rows.owner * classes + labels, torch.tensor(cells))
        each = torch.bincount(place, minlength=cells + 1)[:cells].view(rows.sites, classes)
        told = ((each > 0).sum(1) > 1).nonzero().squeeze(1).tolist()  # of one class alone there is no AUC
        for site in told:
            own = (rows.owner == site).nonzero().squeeze(1)
            shares = _pair_shares(each[site], torch.ones(1, classes)) / len(told)
            values[:, own] = _placed(scores[:, own], labels[own], shares)
        strata, count = place.numpy(), each[told].flatten()
    if why := _too_few(count[count > 0].numpy(), LEAST, "class" if rows.owner is None else "class at a site"):
        return why
    weight = np.ones(len(labels)) if rows.owner is None else inside.double().numpy()
    return [by_row(lane, strata=strata, weight=weight, test_set=rows.name) for lane in values.numpy()]


def _pair_shares(count: Tensor, held: Tensor) -> Tensor:
    """What the AUC of class c against class d is worth in the mean over sites: [C, C]; held: [k, C]."""
    classes, there = len(count), (held > 0) & (count > 0)  # [k, C]
    every = torch.tensor([1]) if classes == 2 else torch.arange(classes)
    shares, told = torch.zeros(classes, classes, dtype=torch.float64), 0
    for site in there:
        others = (site * count).double().expand(classes, -1) * (1 - torch.eye(classes, dtype=torch.float64))
        against = others.sum(1)
        can = [c for c in every.tolist() if site[c] and against[c] > 0]
        told += bool(can)
        for c in can:
            shares[c] += others[c] / against[c] / len(can)
    return shares / max(1, told)


def _placed(scores: Tensor, labels: Tensor, shares: Tensor) -> Tensor:
    """How much each row is worth in a weighted sum of AUCs, class c against class d: [L, n]."""
    found = torch.zeros(scores.shape[:2], dtype=torch.float64)
    members = [(labels == c).nonzero().squeeze(1) for c in range(len(shares))]
    for c, d in shares.nonzero().tolist():
        mine, theirs = (scores[:, members[own], c].float() for own in (c, d))  # scores are told to float32
        worth = float(shares[c, d])
        found[:, members[c]] += worth / len(members[c]) * _beaten(mine, theirs)
        found[:, members[d]] += worth / len(members[d]) * _beaten(-theirs, -mine)
    return found


def _beaten(mine: Tensor, theirs: Tensor) -> Tensor:
    """The share of theirs [L, m] that each of mine [L, n] is above, ties counting half: [L, n]."""
    ranked = theirs.sort(1).values
    sides = [torch.searchsorted(ranked, mine, right=right).double() for right in (False, True)]
    return (sides[0] + sides[1]) / 2 / theirs.shape[1]


def _of_sums(metric: Metric, outputs: Tensor, rows: TestRows) -> list[RowErrors] | str:
    """By a bootstrap: rows drawn anew within each class, of each site where sites are compared."""
    labels, classes, sites = rows.labels, max(1, rows.classes), rows.sites if rows.owner is not None else 1
    kind = labels if rows.classes else torch.zeros(len(labels), dtype=torch.int64)
    owner = torch.zeros_like(kind) if rows.owner is None else rows.owner
    inside = (owner >= 0) & (owner < sites)
    strata = torch.where(inside, owner * classes + kind, torch.tensor(sites * classes))
    count = torch.bincount(strata, minlength=sites * classes + 1)[:-1].view(sites, classes)
    what = (["class"] if rows.classes else []) + (["site"] if rows.owner is not None else [])
    if why := _too_few(count[count > 0].numpy(), LEAST, " at a ".join(what) or "test set"):
        return why
    counts = _draws(strata.numpy().tobytes(), sites * classes)
    cells = [
        (kind if rows.held is not None else owner) == g for g in range(classes if rows.held is not None else sites)
    ]
    lanes = max(1, NUMBERS // max(1, outputs[0].numel()))
    found = torch.cat([_drawn(metric, some, rows, counts, cells) for some in torch.split(outputs, lanes)])  # [L, draws]
    if bool(found.isnan().any()):
        return "in some draws of its test rows this metric has no value"
    assert metric.marks is not None
    values = (metric.marks(outputs, labels) * inside).numpy()
    size, smallest = int(count.sum()), int(count[count > 0].min())
    return [
        by_draws(lane, values=own, rows=size, smallest=smallest, test_set=rows.name)
        for lane, own in zip(found.numpy(), values, strict=True)
    ]


def _drawn(metric: Metric, outputs: Tensor, rows: TestRows, counts: NDArray[np.float32], cells: list[Tensor]) -> Tensor:
    """The metric of each lane in each draw [L, draws]; cells: the rows [n] whose sums a site's are made of."""
    assert metric.sums is not None
    each = metric.sums.rows(outputs, rows.labels)  # [L, n, k]
    lanes, n, k = each.shape
    flat = each.transpose(0, 1).reshape(n, lanes * k)
    step = max(1, NUMBERS // (lanes * k * max(len(cells), 1 if rows.held is None else len(rows.held))))
    found = []
    for some in torch.split(torch.from_numpy(counts), step):
        weight = some.double()
        sums = torch.stack([weight[:, own] @ flat[own] for own in cells], 1)  # [draws, cells, L k]
        if rows.held is not None:
            sums = torch.einsum("mc,bcx->bmx", rows.held.double(), sums)
        empty = (sums == 0).all(2, keepdim=True)
        values = metric.sums.value(
            sums.masked_fill(empty, torch.nan).view(*sums.shape[:2], lanes, k)
        )  # [draws, sites, L]
        found.append(values.nanmean(1).T)
    return torch.cat(found, 1)


@lru_cache(maxsize=2)
def _draws(strata: bytes, kinds: int) -> NDArray[np.float32]:
    """How often each row is drawn [DRAWS, n]: one row less than a stratum has, so that variances are not too small.

    The same for all models of a test set. strata: int64; rows of `kinds` are nobody's, and stay as they are.
    """
    own = np.frombuffer(strata, np.int64)
    rng = np.random.default_rng(0)
    found = np.ones((DRAWS, len(own)), np.float32)
    for kind in np.unique(own[own < kinds]):
        places = np.flatnonzero(own == kind)
        n = len(places)
        drawn = rng.integers(0, n, (DRAWS, n - 1)) + n * np.arange(DRAWS)[:, None]
        count = np.bincount(drawn.ravel(), minlength=DRAWS * n).reshape(DRAWS, n)
        found[:, places] = count * (n / (n - 1))
    return found
