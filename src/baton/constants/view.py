"""A problem, and what it is at single points: F, gradients, Hessians, minibatches, over all its samples."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from baton.constants import noise
from baton.constants.found import mean
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
    loss_error: float | None = None  # F's, where not all samples were
    gradient2_error: float | None = None


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
        self.of = self.few = "over clients" if every else f"over {len(chosen)} of {objective.clients:,} clients"
        self.draws = noise.DRAWS

    def level(self, x: Tensor) -> tuple[float, float | None]:
        """F(x), exactly."""
        return self.loss(x), None

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
