"""The step as the kernels take it."""

from typing import NamedTuple

from torch import Tensor


class Rule(NamedTuple):
    """How a step is taken, one entry a lane. What is None is in no lane's.

    An arena [L / n, P] stands for n lanes in a row.
    """

    lr: Tensor  # [L]
    clip: Tensor  # [L] 0: none
    weight_decay: Tensor  # [L]
    pull: tuple[Tensor, Tensor] | None = None  # how strong [L], and the arena to which
    shift: Tensor | None = None  # an arena that is added to the gradient
    momentum: tuple[Tensor, Tensor] | None = None  # [L], and the arena [L, P] of velocities, which is written over
