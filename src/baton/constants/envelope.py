"""beta^2 and zeta^2 of the paper's Assumption 3a: a line above the clients' diversity as a function of |grad F|^2."""

from collections.abc import Sequence
from itertools import combinations

import torch

from baton import rng

DRAWS = 1000  # of points that are estimates


def line(gradients: Sequence[float], diversity: Sequence[float]) -> tuple[float, float]:
    """(beta^2, zeta^2) >= 0 with beta^2 a + zeta^2 >= h at every point (a, h), a = |grad F|^2.

    Many lines lie above the points. This is the one that is lowest on average over them. Its height is convex and
    piecewise linear in the slope, so the best slope is 0 or one at which the line touches two points, or a point and 0.
    """
    points = list(zip(gradients, diversity, strict=True))
    pairs = combinations([(0.0, 0.0), *points], 2)
    slopes = {0.0} | {(h - g) / (a - b) for (a, h), (b, g) in pairs if a != b}
    lines = [(s, max(0.0, *(h - s * a for a, h in points))) for s in slopes if s >= 0]
    middle = sum(gradients) / len(points)
    return min(lines, key=lambda line: (line[0] * middle + line[1], line[0]))


def interval(
    gradients: Sequence[float], diversity: Sequence[float], errors: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """What holds beta^2, and zeta^2, in 95 of 100 draws of the points about these, by their standard errors."""
    count = len(errors)
    key = rng.bits(torch.arange(DRAWS * count * 2), rng.EVALUATE, -5)
    drawn = rng.normal(key, torch.float64).view(DRAWS, count, 2)
    middle = torch.tensor(list(zip(gradients, diversity, strict=True)), dtype=torch.float64)
    points = (middle + drawn * torch.tensor(errors, dtype=torch.float64)).clamp(min=0)
    found = torch.tensor([line(*zip(*some, strict=True)) for some in points.tolist()], dtype=torch.float64)
    ends = found.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64), 0)
    return [(float(low), float(high)) for low, high in ends.T]
