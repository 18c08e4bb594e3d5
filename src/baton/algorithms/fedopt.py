"""FedAdagrad, FedAdam and FedYogi (Reddi et al., 2021): adaptive steps of the server, over averages or over chains."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.server import adaptive, stepping
from baton.algorithms.ways import way
from baton.lanes import per_lane
from baton.names import lane


def fedadagrad(
    *,
    server_lr: Tensor = lane(0.1, above=0.0),
    beta1: Tensor = lane(0.0, least=0.0, below=1.0),
    tau: Tensor = lane(0.001, above=0.0),
    weighting: str = "uniform",
    of: str = "parallel",
) -> Algorithm:
    """The server's Adagrad: v = v + D^2, x + server_lr m / (sqrt(v) + tau), D the round's way (Reddi et al., 2021)."""
    return stepping(way("fedadagrad", of, weighting), adaptive(beta1, tau, server_lr, torch.add))


def fedadam(
    *,
    server_lr: Tensor = lane(0.1, above=0.0),
    beta1: Tensor = lane(0.9, least=0.0, below=1.0),
    beta2: Tensor = lane(0.99, least=0.0, below=1.0),
    tau: Tensor = lane(0.001, above=0.0),
    weighting: str = "uniform",
    of: str = "parallel",
) -> Algorithm:
    """The server's Adam: v = beta2 v + (1 - beta2) D^2, x + server_lr m / (sqrt(v) + tau) (Reddi et al., 2021)."""

    def second(v: Tensor, square: Tensor) -> Tensor:
        return torch.lerp(square, v, per_lane(beta2, v).expand_as(v))

    return stepping(way("fedadam", of, weighting), adaptive(beta1, tau, server_lr, second))


def fedyogi(
    *,
    server_lr: Tensor = lane(0.1, above=0.0),
    beta1: Tensor = lane(0.9, least=0.0, below=1.0),
    beta2: Tensor = lane(0.99, least=0.0, below=1.0),
    tau: Tensor = lane(0.001, above=0.0),
    weighting: str = "uniform",
    of: str = "parallel",
) -> Algorithm:
    """The server's Yogi: v = v - (1 - beta2) D^2 sign(v - D^2), then as fedadam (Reddi et al., 2021)."""

    def second(v: Tensor, square: Tensor) -> Tensor:
        return v - per_lane(1 - beta2, v) * square * torch.sign(v - square)

    return stepping(way("fedyogi", of, weighting), adaptive(beta1, tau, server_lr, second))
