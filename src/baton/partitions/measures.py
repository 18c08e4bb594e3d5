"""How uneven a partition is: the label table and what is measured on it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from baton.partitions.draws import Ints, check_pairs

Floats = NDArray[np.float64]


class Measures(NamedTuple):
    """Of each client; distances are from its label distribution to that of all samples held, nan where it has none."""

    sizes: Ints  # [M] samples
    classes: Ints  # [M] different labels
    total_variation: Floats  # [M] half the sum of |p - g|: 0 to 1
    jensen_shannon: Floats  # [M] root of the divergence in bits: 0 to 1

    def summary(self) -> dict[str, Any]:
        """Numbers to print: spread of sizes and classes, mean distances over the clients that have samples."""
        some = self.sizes > 0
        return {
            "clients": len(self.sizes),
            "samples": int(self.sizes.sum()),
            "without_samples": int((~some).sum()),
            "sizes": _spread(self.sizes),
            "classes": _spread(self.classes),
            "mean_total_variation": float(self.total_variation[some].mean()) if some.any() else None,
            "mean_jensen_shannon": float(self.jensen_shannon[some].mean()) if some.any() else None,
        }


def table(owner: Ints, labels: Ints, clients: int, classes: int) -> Ints:
    """Samples of each label at each client: [M, classes]. A sample that nobody holds counts nowhere."""
    check_pairs(clients, classes, "labels")
    held = owner >= 0
    cells = np.bincount(owner[held] * classes + labels[held], minlength=clients * classes)
    return cells.reshape(clients, classes)


def measure(counts: Ints) -> Measures:
    """Of a label table [M, classes]."""
    sizes = counts.sum(1)
    some = sizes > 0
    p = counts[some] / sizes[some, None]
    g = counts.sum(0) / max(1, sizes.sum())
    middle = (p + g) / 2
    divergence = (_bits(p, middle) + _bits(np.broadcast_to(g, p.shape), middle)) / 2
    tv, js = np.full(len(sizes), np.nan), np.full(len(sizes), np.nan)
    tv[some] = np.abs(p - g).sum(1) / 2
    js[some] = np.sqrt(divergence.clip(min=0))
    return Measures(sizes, (counts > 0).sum(1), tv, js)


def _bits(p: Floats, q: Floats) -> Floats:
    """Kullback-Leibler divergence of rows, base 2, where q > 0 wherever p > 0."""
    ratio = np.divide(p, q, out=np.ones_like(q), where=p > 0)
    total: Floats = (p * np.log2(ratio)).sum(1)
    return total


def _spread(values: Ints) -> dict[str, float]:
    low, quarter, median, upper, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()
    around = {"mean": float(values.mean()), "std": float(values.std())}
    return {"min": low, "25%": quarter, "median": median, "75%": upper, "max": high, **around}
