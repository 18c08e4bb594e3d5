"""Simulated studies with a known truth: how often intervals hold it, and how often somebody is falsely called ahead.

`python tests/made_studies.py` prints the table of docs/compare.md (1,000 studies a cell; about a quarter of an hour).
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr
from torch import Tensor

from baton import metrics
from baton.datasets.base import cross_entropy
from baton.metrics import Task
from baton.metrics.sampling import TestRows, row_errors
from baton.verdict import Difference, RowErrors, difference, together

METRICS = ("test_accuracy", "test_loss", "test_auc", "test_f1", "site_auc_mean")
METHODS, SEEDS, ROWS, VARIANCES = (2, 5, 10), (3, 10), (50, 500, 5000), ("equal", "unequal")
STUDIES = 1000
COVERAGE, FALSE_WINNERS = 0.93, 0.064  # at least; at most: 5 % and two standard errors of 1,000 studies

MEAN, SITE, PREVALENCE = 1.2, 0.4, 0.4  # of a row's margin; how far sites are from it; share of class 1
HARD, LUCK_AND_OWN, BOTH = 1.0, 0.2725, 0.25  # variances: of a row for all, of a seed and a row for one method, of both
LUCK = {"equal": (0.15,), "unequal": (0.08, 0.2)}  # deviation over seeds, in turns by method; the sum above stays

Array = NDArray[np.float64]
Pairs = dict[tuple[int, int], Difference]


@dataclass
class Cell:
    """What studies of one kind came to."""

    studies: int = 0
    known: int = 0  # studies with intervals
    held: float = 0.0  # shares of pairs whose interval holds the truth, 0, added up
    false: int = 0  # studies in which somebody is called ahead
    widths: list[float] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        """Share of intervals that hold the truth."""
        return self.held / self.known if self.known else float("nan")

    @property
    def false_winners(self) -> float:
        """Share of studies in which somebody is called ahead."""
        return self.false / self.studies

    @property
    def width(self) -> float:
        """Of an interval, the mean."""
        return float(np.mean(self.widths)) if self.widths else float("nan")

    def add(self, pairs: Pairs) -> None:
        """One study more; in truth no two of its methods differ."""
        self.studies += 1
        known = [d for d in pairs.values() if not d.why]
        self.false += any(d.clear for d in pairs.values())
        if known:
            self.known += 1
            self.held += float(np.mean([d.low <= 0 <= d.high for d in known]))
            self.widths.append(float(np.mean([2 * d.half for d in known])))


def draw(
    rng: np.random.Generator, *, variances: str, methods: int, seeds: int, rows: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (margins of the true class [methods, seeds, rows], labels [rows], sites [rows]), all drawn anew.

    Every method's margins have the same distribution over seeds and rows, so that no two differ in truth. Rows are hard
    for all methods, and some for one; seeds are lucky with a class, and with single rows.
    """
    labels, sites = (rng.random(rows) < PREVALENCE).astype(int), rng.integers(0, 2, rows)
    spread = np.resize(LUCK[variances], methods)
    luck = rng.normal(0, 1, (methods, seeds, 2)) * spread[:, None, None]
    own = rng.normal(0, 1, (methods, 1, rows)) * np.sqrt(LUCK_AND_OWN - spread**2)[:, None, None]
    margin = rng.standard_normal((methods, seeds, rows), np.float32) * np.float32(BOTH**0.5)
    margin += (own + MEAN + SITE * (2 * sites - 1) + rng.normal(0, HARD**0.5, rows)).astype(np.float32)
    margin += luck[:, :, labels].astype(np.float32)
    return torch.from_numpy(margin), torch.from_numpy(labels), torch.from_numpy(sites)


@cache
def shift_of_f1(luck: float) -> float:
    """What is added to margins so that F1 over all seeds and rows is the same at any luck: it is not linear in it."""
    same = f1_of_all(LUCK["equal"][0], 0.0)
    return float(brentq(lambda shift: f1_of_all(luck, shift) - same, -0.5, 0.5))


def f1_of_all(luck: float, shift: float) -> float:
    """F1 over all seeds and rows, by quadrature over the luck with each class."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    wide = np.sqrt(HARD + LUCK_AND_OWN + BOTH - luck**2)
    right = sum(ndtr((MEAN + side * SITE + shift + luck * nodes) / wide) for side in (-1, 1)) / 2
    one, zero = PREVALENCE * right[:, None], (1 - PREVALENCE) * right[None]
    wrong = PREVALENCE - one + 1 - PREVALENCE - zero
    both = (2 * one / (2 * one + wrong) + 2 * zero / (2 * zero + wrong)) / 2
    return float(weights @ both @ weights / weights.sum() ** 2)


def measured(metric: str, margin: Tensor, labels: Tensor, sites: Tensor, variances: str) -> tuple[Array, object]:
    """Return the scores [methods, seeds] of a metric and its row errors, a list of methods times seeds or a text."""
    where, name = metric.split("_")[:2]
    if name == "f1":
        moved = np.resize([shift_of_f1(luck) for luck in LUCK[variances]], len(margin))
        margin = margin + torch.from_numpy(moved.astype(np.float32))[:, None, None]
    logit = (margin * (2 * labels - 1)).flatten(0, 1)
    outputs = torch.stack([-logit / 2, logit / 2], -1)
    found = metrics.METRICS[name](Task(2, cross_entropy))
    if where == "site":
        each = [found.of(outputs[:, sites == site], labels[sites == site], None) for site in (0, 1)]
        scores, rows = sum(each) / 2, TestRows(name="made", labels=labels, classes=2, owner=sites, sites=2)
    else:
        scores, rows = found.of(outputs, labels, None), TestRows(name="made", labels=labels, classes=2)
    return scores.view(margin.shape[:2]).numpy(), row_errors(found, outputs, rows)


def compared(scores: Array, errors: object, seeds: int) -> Pairs:
    """Every two methods, by the first seeds."""
    count, found = scores.shape[1], {}
    for a, b in combinations(range(len(scores)), 2):
        sides = [dict(enumerate(scores[m, :seeds].tolist())) for m in (a, b)]
        if isinstance(errors, str):
            found[a, b] = difference(*sides, unknown=errors)
            continue
        assert isinstance(errors, list)
        rows: list[Mapping[int, RowErrors]] = [dict(enumerate(errors[m * count : m * count + seeds])) for m in (a, b)]
        found[a, b] = difference(*sides, rows=(rows[0], rows[1]))
    return found


def simulate(
    *,
    variances: str,
    rows: int,
    studies: int = STUDIES,
    names: tuple[str, ...] = METRICS,
    methods: tuple[int, ...] = METHODS,
    seeds: tuple[int, ...] = SEEDS,
) -> dict[tuple[str, int, int], Cell]:
    """Return {(metric, methods, seeds): what the studies came to}; smaller cells are the first of larger ones."""
    rng = np.random.default_rng([rows, VARIANCES.index(variances)])
    cells = {(name, m, s): Cell() for name in names for m in methods for s in seeds}
    for _ in range(studies):
        drawn = draw(rng, variances=variances, methods=max(methods), seeds=max(seeds), rows=rows)
        for name in names:
            scores, errors = measured(name, *drawn, variances)
            for s in seeds:
                pairs = compared(scores, errors, s)
                for m in methods:
                    cells[name, m, s].add(together({key: d for key, d in pairs.items() if max(key) < m}))
    return cells


def lines(rows: int, variances: str, cells: Mapping[tuple[str, int, int], Cell]) -> Iterator[str]:
    """The cells as lines of a table in Markdown."""
    for (name, methods, seeds), cell in cells.items():
        numbers = f"{cell.coverage:.1%} | {cell.false_winners:.1%} | {cell.width:.3g} | {cell.known / cell.studies:.0%}"
        yield f"| {name} | {variances} | {rows:,} | {seeds} | {methods} | {numbers} |"


if __name__ == "__main__":
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES
    some = [(int(n), v) for n in (sys.argv[2].split(",") if len(sys.argv) > 2 else ROWS) for v in VARIANCES]
    for rows, variances in some:
        for line in lines(rows, variances, simulate(variances=variances, rows=rows, studies=studies)):
            print(line, flush=True)
