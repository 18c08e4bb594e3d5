"""FedAvgM (Hsu et al., 2019): momentum at the server, over averages or over chains."""

from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.server import momentum, stepping
from baton.algorithms.ways import way
from baton.names import lane


def fedavgm(
    *,
    beta: Tensor = lane(0.9, least=0.0, below=1.0),
    server_lr: Tensor = lane(1.0, above=0.0),
    weighting: str = "uniform",
    of: str = "parallel",
) -> Algorithm:
    """The server keeps v = beta v + (the round's end - x) and moves by server_lr v (Hsu et al., 2019).

    The end is the participants' average, or with of=sequential the chain's. beta = 0 is parallel, or sequential.
    """
    return stepping(way("fedavgm", of, weighting), momentum(beta, server_lr))
