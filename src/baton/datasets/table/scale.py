"""Numbers on one scale: less their mean, over their deviation, both of training rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.errors import BadInput

SCALES = {  # what becomes of numbers, in words
    "pooled": "standardised over all sites' training rows",
    "site": "standardised site by site over its training rows",
    "none": "as they are",
}
Floats = NDArray[np.float64]


class Moments(NamedTuple):
    """Mean and deviation of a column, one a site or one for all."""

    mean: Floats  # [sites] or [1]
    deviation: Floats  # 1 where the column is constant

    def of(self, column: Floats, site: NDArray[np.int64]) -> Floats:
        """The column [n] on this scale, each row by its site's."""
        at = site if len(self.mean) > 1 else 0
        scaled: Floats = (column - self.mean[at]) / self.deviation[at]
        return scaled


def check(scale: str) -> None:
    """One of the three."""
    if scale not in SCALES:
        raise BadInput(f"dataset: scale={scale}; pooled, site or none is right")


def moments(column: Floats, site: NDArray[np.int64], sites: int, scale: str) -> Moments:
    """Of training rows. pooled: from what sites could send: counts and sums, then sums of squares about the mean."""
    if scale == "none":
        return Moments(np.zeros(1), np.ones(1))
    count = np.bincount(site, minlength=sites).astype(np.float64)
    total = np.bincount(site, column, minlength=sites)
    if scale == "pooled":
        mean = np.array([total.sum() / count.sum()])
        squares = np.bincount(site, (column - mean[0]) ** 2, minlength=sites)
        variance = np.array([squares.sum() / count.sum()])
    else:
        mean = total / count
        variance = np.bincount(site, (column - mean[site]) ** 2, minlength=sites) / count
    level = 1e-12 * np.maximum(1.0, np.abs(mean))  # below: rounding of a constant
    deviation = np.sqrt(variance)
    return Moments(mean, np.where(deviation > level, deviation, 1.0))
