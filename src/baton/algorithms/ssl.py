"""Sequential split learning (SSL): the two algorithms of the paper's appendix, at the client and at the server."""

from baton.algorithms.base import Algorithm
from baton.algorithms.sequential import hand_on
from baton.algorithms.split import checked
from baton.errors import BadInput
from baton.names import Layer


def ssl(
    *,
    cut: Layer,
    head: Layer | None = None,
    relay: str = "peer",
    clip: str = "joint",
    smash_noise: float = 0.0,
    passes: int = 0,
) -> Algorithm:
    """Sequential training with split legs: the server keeps its side, clients hand theirs on.

    relay: from client to client, or by way of the server; the numbers are the same, the traffic is not.
    """
    if relay not in ("peer", "server"):
        raise BadInput(f"algorithm: ssl has relay={relay}; 'peer' or 'server' is right")
    return Algorithm(hand_on, relay=relay, split=checked("ssl", cut, head, clip, smash_noise, passes))
