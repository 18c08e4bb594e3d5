"""What trains a leg, and what a model answers: the same for every way of computing it."""

from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from baton.clients import Batches
from baton.lanes import Params, per_lane, zeros
from baton.seam import Local


class Step(NamedTuple):
    """The local step as data, one entry a leg.

        d = clip(g) + weight_decay x + pull (x - anchor) + shift;  v = momentum v + d;  x -= lr v

    v is 0 when a leg begins. What is None is used in no leg, and costs nothing.
    """

    lr: Tensor  # [N]; 0 where the client holds no samples: it hands the model on as it is
    clip: Tensor  # [N] the largest norm of a gradient; 0: any
    weight_decay: Tensor  # [N]
    momentum: Tensor | None = None  # [N]
    pull: Tensor | None = None  # [N]
    anchor: Params | None = None  # [N, ...], or fewer: as x below; None: where the leg starts
    shift: Params | None = None  # [N, ...], or fewer
    ragged: bool = False  # whether a leg may have fewer than K steps: its last batches are empty, and not taken
    stiff: Params | None = None  # [N, ...], or fewer: a pull of its own at each parameter; of plain legs alone


class Legs(Protocol):
    """One program's model on its pool of samples."""

    way: str  # of computing, for people

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """x after K steps of each leg in batches; a client without samples hands the model on unchanged.

        x may have fewer lanes than there are legs: then each of them is where as many legs in a row start from. So may
        anchor and shift, each on its own.
        """

    def outputs(self, x: Params, pool: Tensor, places: Tensor) -> Tensor:
        """What the model puts out for stored samples, without dropout: places [n] or [L, n] -> [L, n, ...]."""


def repeated(x: Params, legs: int) -> Params:
    """x [L, ...] with a lane for each leg: each of its lanes as many times in a row as it takes."""
    times = legs // len(next(iter(x.values())))
    return x if times == 1 else {name: leaf.repeat_interleave(times, 0) for name, leaf in x.items()}


def directed(legs: Legs, x: Params, step: Step, batches: Batches, inverse: Tensor) -> tuple[Params, Params]:
    """(x after K steps, each leg's mean direction but for its shift: (start - end) inverse - shift); inverse [N].

    The shift is this leg's own, and may be written over.
    """
    quick = getattr(legs, "directed", None)
    made: tuple[Params, Params] = (quick or partial(measured, legs))(x, step, batches, inverse)
    return made


class Still:
    """Legs that take all their gradients where they start: in one call, or in K calls of one unit step each on any way.

    Gradients do not depend on the learning rate, nor on whether it is 0.
    """

    square: Params  # [N, ...] the mean square of the gradients of the last call

    def __init__(self, legs: Legs) -> None:
        self.legs, self.way, self.outputs = legs, legs.way, legs.outputs

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """x - lr (the sum of K gradients taken at x); what a step adds to a gradient counts as part of it."""
        quick = getattr(self.legs, "still", None)
        made: tuple[Params, Params] | None = quick and quick(x, step, batches)
        if made is not None:
            self.square = made[1]
            return made[0]
        taken = (batches.weight.sum(2) > 0).sum(1).to(step.lr.dtype)
        unit, x = step._replace(lr=taken.clamp(max=1), momentum=None), repeated(x, len(step.lr))
        total, square = zeros(x), zeros(x)
        for k in range(batches.places.shape[1]):
            one = self.legs.train(x, unit, Batches(*(field[:, k : k + 1].contiguous() for field in batches)))
            for n, leaf in one.items():
                way = x[n] - leaf
                total[n] += way
                square[n] += way.square_()
        self.square = {n: leaf.div_(per_lane(taken.clamp(min=1), leaf)) for n, leaf in square.items()}
        return {n: leaf - per_lane(step.lr, leaf) * total[n] for n, leaf in x.items()}


def shift_of(local: Local, kept: Params, sent: Params) -> Params:
    """What clients add to their steps, in memory that a leg may write over.

    That is theirs where begin wrote it over what was kept; anything else may be wanted again, and is copied.
    """
    before = [(leaf, leaf._version) for leaf in kept.values()]
    made = local.begin(kept, sent)
    spent = {_memory(leaf) for leaf, version in before if leaf._version != version}
    return {name: leaf if _memory(leaf) in spent else leaf.clone() for name, leaf in made.items()}


def _memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def inverse_of(reach: Tensor, lr: Tensor) -> Tensor:
    """1 / (lr reach); 0 where nothing moved."""
    way = reach * lr
    return torch.where(way > 0, 1 / way, 0.0)


def measured(legs: Legs, x: Params, step: Step, batches: Batches, inverse: Tensor) -> tuple[Params, Params]:
    """The same, from where a leg began and ended."""
    made, count = legs.train(x, step, batches), len(inverse)
    begun, shift = repeated(x, count), step.shift and repeated(step.shift, count)
    told = {n: (begun[n] - leaf).mul_(per_lane(inverse, leaf)) for n, leaf in made.items()}
    return made, {n: leaf.sub_(shift[n]) for n, leaf in told.items()} if shift else told
