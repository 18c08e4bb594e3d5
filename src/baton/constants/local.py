"""What the assumptions' constants would have to be at single points: local estimates, since they are for all x."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from baton.constants import envelope, noise
from baton.constants.found import LOCAL, Constant, Tell, mean
from baton.constants.objective import Group, Objective
from baton.constants.spectrum import Apply, ends
from baton.legs.plain import gradient

Eigen = tuple[Tensor, Tensor]  # largest |eigenvalue| of each client [N], residuals [N]


class Point(NamedTuple):
    """Where local values are taken, and what F is there."""

    where: str  # "round 20", or "x*"
    loss: float  # F
    gradient2: float  # |grad F|^2
    diversity: float  # (1/M) sum_m |grad F_m - grad F|^2
    error: float | None  # its standard error, where not all clients were looked at


class View:
    """A problem, and those of its clients that are looked at one by one."""

    def __init__(self, objective: Objective, chosen: list[int], tolerance: float) -> None:
        """tolerance: of eigenvalues, relative."""
        self.objective, self.chosen, self.tolerance = objective, chosen, tolerance
        self.groups = list(objective.groups(chosen))
        self._step = gradient(objective.net, objective.data)  # of a minibatch as training takes it
        self.whole = objective.together(range(objective.clients))  # F
        every = len(chosen) == objective.clients
        self.some = self.whole if every else objective.together(chosen)
        self.of = "over clients" if every else f"over {len(chosen)} of {objective.clients:,} clients"

    def loss(self, x: Tensor) -> float:
        """F(x)."""
        return float(self.objective.losses(x, self.whole))

    def gradient(self, x: Tensor) -> Tensor:
        """Of F: [d]."""
        return self.objective.gradients(x, self.whole)[0]

    def gradients(self, x: Tensor) -> Tensor:
        """Of the chosen F_m: [N, d]."""
        return torch.cat([self.objective.gradients(x, group) for _, group in self.groups])

    def point(self, where: str, x: Tensor) -> Point:
        """F and its gradients there."""
        gradient = self.gradient(x)
        each = (self.gradients(x) - gradient).square().sum(1)
        return Point(where, self.loss(x), float(gradient.square().sum()), *mean(each, self.objective.clients))

    def hessians(self, x: Tensor) -> Eigen:
        """|H_m| of each chosen client: L is the largest over clients and x."""
        return self._norms(x, lambda v, group: self.objective.products(x, v, group))

    def differences(self, x: Tensor) -> Eigen:
        """|H_m - H| of each chosen client, H being the mean over those chosen: delta is the largest."""

        def apart(v: Tensor, group: Group) -> Tensor:
            mean = self.objective.products(x, v.flatten(0, 1).unsqueeze(0), self.some)
            return self.objective.products(x, v, group) - mean.view(v.shape)

        return self._norms(x, apart)

    def _norms(self, x: Tensor, product: Callable[..., Tensor]) -> Eigen:
        found = []
        for some, group in self.groups:
            apply: Apply = partial(product, group=group)
            found.append(ends(apply, len(some), len(x), self.tolerance, device=x.device).norm())
        value, error = (torch.cat(parts) for parts in zip(*found, strict=True))
        return value, error

    def variances(self, x: Tensor) -> tuple[Tensor, float]:
        """sigma^2 of each chosen client, and the standard error of their mean that comes from drawn minibatches."""
        if not noise.keyed(self.objective):
            each = [noise.of_samples(self.objective, x, some, group) for some, group in self.groups]
            return torch.cat(each), 0.0
        drawn = [noise.of_draws(self.objective, x, m, self._step) for m in self.chosen]
        value, error = torch.tensor(drawn, dtype=torch.float64).unbind(1)
        return value, float(error.norm()) / len(error)


def local(
    view: View, at: list[tuple[str, Tensor]], wanted: list[str], tell: Tell
) -> tuple[dict[str, Constant], list[Point]]:
    """The largest over the points, and the line above the gradients' diversity there."""
    jobs = [name for name in ("points", "L", "delta", "sigma2") if name in wanted or name == "points"]
    points: list[Point] = []
    eigen: dict[str, list[Eigen]] = {"L": [], "delta": []}
    variance: list[tuple[Tensor, float]] = []
    for number, (where, x) in enumerate(at):
        for place, job in enumerate(jobs):
            tell(
                f"{'gradients' if job == 'points' else job} at {where}", number * len(jobs) + place, len(at) * len(jobs)
            )
            if job == "points":
                points.append(view.point(where, x))
            elif job == "sigma2":
                variance.append(view.variances(x))
            else:
                eigen[job].append(view.hessians(x) if job == "L" else view.differences(x))
    found = {f"{name}_local": _largest(view, values) for name, values in eigen.items() if values}
    found |= _noise(view, variance) if variance else {}
    return found | (_line(points) if points else {}), points


def _largest(view: View, found: list[Eigen]) -> Constant:
    """The interval begins at the value: a Rayleigh quotient is never above the eigenvalue it is for."""
    value, error = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Constant(
        float(value.max()), LOCAL, float(value.max()), float((value + error).max()), note=f"largest {view.of}"
    )


def _noise(view: View, found: list[tuple[Tensor, float]]) -> dict[str, Constant]:
    top = max(float(each.max()) for each, _ in found)
    each, drawn = max(found, key=lambda pair: float(pair[0].mean()))
    value, error = mean(each, view.objective.clients)
    both = ((error or 0.0) ** 2 + drawn**2) ** 0.5
    how = f", {noise.DRAWS} minibatches each" if drawn else ""
    return {
        "sigma2_local": Constant(top, LOCAL, note=f"largest {view.of}{how}"),
        "sigma2_local_mean": Constant(value, LOCAL, error=both or None, note=f"mean {view.of}{how}"),
    }


def _line(points: list[Point]) -> dict[str, Constant]:
    beta2, zeta2 = envelope.line([p.gradient2 for p in points], [p.diversity for p in points])
    errors = [p.error for p in points if p.error is not None]
    slope = "slope of the line over the points, lowest on average"
    return {
        "beta2_local": Constant(beta2, LOCAL, note=slope),
        "zeta2_local": Constant(zeta2, LOCAL, error=max(errors) if errors else None, note="its height at grad F = 0"),
    }
