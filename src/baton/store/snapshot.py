"""All lanes after some rounds, and the names that files have for their parts."""

from typing import NamedTuple

from torch import Tensor

from baton.lanes import Params
from baton.seam import State
from baton.store.history import History

SERVER, CLIENTS = "server/", "clients/"  # what their leaves' names begin with in a file


class Snapshot(NamedTuple):
    """All lanes after some rounds: enough to go on from, since no draw keeps state."""

    round: int
    state: State
    clients: Params  # what each client keeps [L, M, ...]; training writes to it, so it is of this round until the next
    diverged: Tensor  # [L] the round that left the finite numbers, -1 while there
    history: History


def named(state: State, clients: Params, model: str = "") -> Params:
    """The three drawers as one table; model: what the names of the model's leaves begin with."""
    drawers = {model: state.model, SERVER: state.server, CLIENTS: clients}
    return {prefix + name: leaf for prefix, drawer in drawers.items() for name, leaf in drawer.items()}


def drawers(tensors: Params, model: str = "") -> tuple[State, Params]:
    """What `named` put into one table, apart again; other names are left out."""
    found: dict[str, Params] = {SERVER: {}, CLIENTS: {}, model: {}}  # the model's prefix may be none: it comes last
    for name, leaf in tensors.items():
        prefix = next((each for each in found if name.startswith(each)), None)
        if prefix is not None:
            found[prefix][name.removeprefix(prefix)] = leaf
    return State(found[model], found[SERVER]), found[CLIENTS]
