"""What trains a leg, and what a model answers: the same for every way of computing it."""

from typing import Protocol

from torch import Tensor

from baton.clients import Batches
from baton.lanes import Lanes, Params


class Legs(Protocol):
    """One program's model on its pool of samples."""

    def train(self, x: Params, lanes: Lanes, batches: Batches) -> Params:
        """x after K steps of each leg in batches; a client without samples hands the model on unchanged.

        x may have fewer lanes than there are legs: then each of them is where as many legs in a row start from.
        """

    def outputs(self, x: Params, pool: Tensor, places: Tensor) -> Tensor:
        """What the model puts out for stored samples, without dropout: places [n] or [L, n] -> [L, n, ...]."""


def repeated(x: Params, legs: int) -> Params:
    """x [L, ...] with a lane for each leg: each of its lanes as many times in a row as it takes."""
    times = legs // len(next(iter(x.values())))
    return x if times == 1 else {name: leaf.repeat_interleave(times, 0) for name, leaf in x.items()}
