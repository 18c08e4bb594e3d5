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

    def sides(self, x: Params) -> tuple[Params, Params]:
        """(what clients hold of a model, what the server holds); the second is empty where no model is cut."""


class Split(NamedTuple):
    """A leg in split form: where the model is cut, and what its two sides do at each step."""

    cut: str  # the layer behind which the server's side begins
    head: str = ""  # the layer behind which the client's begins again: labels stay there (U-shaped)
    clip: str = "joint"  # one norm over both sides, or one a side: per_side
    noise: float = 0.0  # what the client adds to the smashed data, as a share of their size
    passes: int = 0  # tau_m is at most so many passes over the client's samples; 0: tau_m = K


def _same(x: Params) -> Params:
    return x


class Algorithm(NamedTuple):
    """Pure functions: a round sees its arguments and returns new state."""

    round: Callable[[State, Tensor, Sites], State]  # (state, order [L, S], sites) -> state
    init: Callable[[Params], State] = _same
    model: Callable[[State], Params] = _same
    parallel: bool = False  # whether a round trains its S participants at once: the memory it needs, the time it takes
    relay: str = ""  # how clients come by parameters: peer (to peer), server (by way of it), average (from it);
    # "": peer, or average where legs are parallel
    split: Split | None = None  # None: every leg is a whole model's
