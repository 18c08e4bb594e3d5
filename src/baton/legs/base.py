"""What trains a leg, and what a model answers: the same for every way of computing it."""

from typing import Protocol

from torch import Tensor

from baton.clients import Batches
from baton.lanes import Lanes, Params


class Legs(Protocol):
    """One program's model on its pool of samples."""

    def train(self, x: Params, lanes: Lanes, batches: Batches) -> Params:
        """x after K steps; a client without samples hands the model on unchanged."""

    def outputs(self, x: Params, pool: Tensor, places: Tensor) -> Tensor:
        """What the model puts out for stored samples, without dropout: places [n] or [L, n] -> [L, n, ...]."""

    def spread(self, x: Params, count: int) -> Params:
        """Each lane `count` times in a row: leaves [L, ...] -> [L count, ...]."""


def repeated(x: Params, count: int) -> Params:
    """Each lane `count` times in a row."""
    return {name: leaf.repeat_interleave(count, 0) for name, leaf in x.items()}
