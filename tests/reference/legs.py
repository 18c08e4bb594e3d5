"""A leg: local steps of SGD at one client, on its minibatches."""

from typing import NamedTuple

import numpy as np

from baton.setting import Setting
from reference.given import Places
from reference.problems import Array, Model, Samples


class Pushes(NamedTuple):
    """What a method adds to each step, constant during a leg: pull (x - start) + stiff (x - start) + shift."""

    pull: float = 0.0
    stiff: Array | float = 0.0
    shift: Array | float = 0.0


def minibatches(s: Setting, rows: Places, drawn: Places, passes: int = 0, steps: int = 0) -> list[Places]:
    """Cut what was drawn into the minibatches of a leg, and check it.

    rows: what the client holds. tau steps: K, or E passes (`epochs`); with `passes` at most so many passes. Shuffled
    samples come in passes, each a permutation of the rows, with a short last minibatch. steps: in place of K.
    """
    if len(rows) == 0:
        return []
    a_pass = -(-len(rows) // s.batch_size)
    steps = s.epochs * a_pass if s.epochs else steps or s.local_steps
    steps = min(steps, passes * a_pass) if passes else steps
    if s.sampling != "shuffle":
        assert np.isin(drawn[:steps], rows).all()
        return [drawn[k, : s.batch_size] for k in range(steps)]
    found = []
    for k in range(steps):
        begin = k % a_pass * s.batch_size
        found.append(drawn[k, : min(s.batch_size, len(rows) - begin)])
    for first in range(0, steps, a_pass):
        seen = np.concatenate(found[first : first + a_pass])
        assert len(set(seen)) == len(seen)
        assert np.isin(seen, rows).all()
        assert len(seen) == len(rows) or first + a_pass > steps
    return found


class Leg:
    """The local steps that all methods share."""

    def __init__(self, setting: Setting, model: Model, train: Samples, sides: list[Array] | None = None) -> None:
        """sides: masks over the parameters, each clipped by its own norm; None: one norm over all."""
        self.s, self.model, self.train, self.sides = setting, model, train, sides

    def gradient(self, x: Array, rows: Places) -> Array:
        """Return the minibatch gradient, clipped, with weight decay: clip(g) + decay x.

        clip(g) = g min(1, clip / (|g| + 1e-6)), as torch.nn.utils.clip_grad_norm_ has it.
        """
        batch = Samples(*(part[rows] for part in self.train))
        g = self.model.gradient(x, batch) if batch.weight.sum() > 0 else np.zeros_like(x)
        if self.s.clip > 0:
            for side in self.sides or [np.ones(len(x), bool)]:
                g[side] *= min(1.0, self.s.clip / (np.linalg.norm(g[side]) + 1e-6))
        return g + self.s.weight_decay * x

    def steps(self, start: Array, batches: list[Places], lr: float, more: Pushes) -> Array:
        """Return x after a step on each minibatch: v = momentum v + d, x -= lr v; v begins at 0."""
        x, v = start.copy(), np.zeros_like(start)
        for rows in batches:
            d = self.gradient(x, rows) + (more.pull + more.stiff) * (x - start) + more.shift
            v = self.s.momentum * v + d
            x = x - lr * v
        return x

    def reach(self, steps: int) -> float:
        """Return how far a constant direction moves x, in lr: the sum of (1 - m^k) / (1 - m) for k = 1, ..., steps."""
        m = self.s.momentum
        return sum((1 - m**k) / (1 - m) for k in range(1, steps + 1))
