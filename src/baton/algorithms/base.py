"""What an algorithm is: a round, and what server and clients keep between rounds."""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from torch import Tensor

from baton.lanes import Params
from baton.seam import Cohort, Local, Now, Sites, Split, State


def _all_alike(round: int) -> Hashable:  # noqa: ARG001
    return None


class Algorithm(NamedTuple):
    """Pure functions: a round sees its arguments and returns new state."""

    round: Callable[[State, Cohort, Sites], State]
    server: Callable[[Params, Now], Params] | None = None  # what the server keeps at first; None: nothing
    local: Local | None = None  # what clients do around their steps, and keep; None: nothing
    order: Callable[[State, Tensor, Now], Tensor] | None = None  # the round's order [L, S], from what was learnt and
    # from the schedule's; None: the schedule's
    kind: Callable[[int], Hashable] = _all_alike  # of a round, by its number: those that do something else than others
    # say so, since rounds are recorded and counted once a kind
    split: Split | None = None  # None: every leg is a whole model's
    sends: bool | int | tuple[str, ...] = (
        True  # what of a model crosses the network, each way: all of it (True), nothing
    )
    # (False), so many bytes (compressed, say), or the leaves whose names have one of these words in them
    pools: bool = False  # whether it asks for samples that are all in one place: sites.pool
    personal: Callable[[State], Params] | None = None  # the model that each client uses [L, M, ...]; None: all the same
    elastic: bool = False  # whether it asks its sites for `stiff`: its legs are torch's then
    looks: bool = False  # whether it asks for legs that stand still, which tell gradients
    once: bool = False  # whether what a client keeps is lost where it stands twice in a round
