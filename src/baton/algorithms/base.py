"""What an algorithm is, and the only thing its round may touch."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor

from baton.lanes import Params

State = Params  # every leaf [L, ...]: the model, and whatever else an algorithm carries from round to round


class Sites(Protocol):
    """The clients as a round sees them: the seam between simulation and deployment."""

    def train(self, x: Params, client: Tensor) -> Params:
        """One leg a lane: x [L, ...], client [L] -> [L, ...]."""

    def train_all(self, x: Params, clients: Tensor) -> Params:
        """All participants' legs from the same x: x [L, ...], clients [L, S] -> [L, S, ...]."""

    def sizes(self, clients: Tensor) -> Tensor:
        """Samples at each client: [L, S] -> [L, S]."""


def _same(x: Params) -> Params:
    return x


class Algorithm(NamedTuple):
    """Pure functions: a round sees its arguments and returns new state."""

    round: Callable[[State, Tensor, Sites], State]  # (state, order [L, S], sites) -> state
    init: Callable[[Params], State] = _same
    model: Callable[[State], Params] = _same
    parallel: bool = False  # whether a round trains its S participants at once (for the memory it needs)
