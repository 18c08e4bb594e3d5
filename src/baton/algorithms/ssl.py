"""Sequential split learning (SSL): the two algorithms of the paper's appendix, at the client and at the server."""

from baton.algorithms.base import Algorithm
from baton.algorithms.sequential import hand_on
from baton.algorithms.split import checked
from baton.errors import BadInput
from baton.names import LayerName
from baton.seam import Cohort, Sites, State


def ssl(
    *,
    cut: LayerName,
    head: LayerName | None = None,
    relay: str = "peer",
    clip: str = "joint",
    smash_noise: float = 0.0,
    passes: int = 0,
) -> Algorithm:
    """Sequential training with split legs: clients hand their side on (the paper's appendix; Gupta and Raskar, 2018).

    relay: from client to client, or by way of the server; the numbers are the same, the traffic is not.
    """
    if relay not in ("peer", "server"):
        raise BadInput(f"algorithm: ssl has relay={relay}; 'peer' or 'server' is right")
    form = checked("ssl", cut, head, clip, smash_noise, passes)
    return Algorithm(hand_on if relay == "peer" else by_way_of_the_server, split=form)


def by_way_of_the_server(state: State, order: Cohort, sites: Sites) -> State:
    """The same round; every client hands its side to the server."""
    x = state.model
    for client in order:
        x = sites.home(sites.train(x, client).x)
    return State(x)
