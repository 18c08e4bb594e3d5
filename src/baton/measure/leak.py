"""What the server could learn: how much of the samples is left in the smashed data, cut by cut.

Distance correlation (Székely, Rizzo and Bakirov, 2007) between samples and smashed data: 0 only if they are
independent, 1 if one is the other turned, scaled or moved.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from baton import datasets, rng
from baton.datasets import Dataset
from baton.errors import BadInput
from baton.lanes import Params
from baton.legs.split import noisy
from baton.nn import Net
from baton.nn.cut import Cut, cuts, sides


class Leak(NamedTuple):
    """One cut."""

    cut: Cut
    correlation: float  # of the samples with their smashed data
    chance: float  # the same with other samples' smashed data: what so few samples show of nothing


def distance_correlation(x: Tensor, y: Tensor) -> float:
    """Of n pairs: x [n, ...], y [n, ...] -> 0 to 1."""
    return _correlation(_centred(x), _centred(y))


def _correlation(a: Tensor, b: Tensor) -> float:
    scale = (a.square().mean() * b.square().mean()).sqrt()
    return float(((a * b).mean().clamp(min=0) / scale).sqrt()) if scale > 0 else 0.0


def _centred(x: Tensor) -> Tensor:
    """Distances between samples, less the means of their rows and columns: [n, n]."""
    flat = x.reshape(len(x), -1).double()
    d = torch.cdist(flat, flat).fill_diagonal_(0.0)  # by products, which leave a trace of rounding there
    return d - d.mean(0, keepdim=True) - d.mean(1, keepdim=True) + d.mean()


def leaks(net: Net, data: Dataset, x: Params, samples: int, smash_noise: float, seed: int) -> list[Leak]:
    """Every legal cut of a model x (without the lane axis), on its first test samples, as the server gets them."""
    if samples < 3:
        raise BadInput(f"samples: {samples}; at least 3 is right")
    known = cuts(net)
    if not known:
        raise BadInput(f"leak: model {getattr(net.build, '__name__', '')!r} cannot be cut; mlp or lenet5 can")
    inputs = datasets.prepared(data, data.test_x[:samples], net.dtype).to(net.device)
    key = rng.bits(torch.tensor(seed, device=net.device), rng.LEAK)
    others = rng.choose(rng.bits(key, 1), len(inputs), len(inputs))
    given, found = _centred(inputs), []
    for cut in known:
        front = sides(net, cut.name).front
        with torch.no_grad():
            smashed = front(front.of(x), key, inputs)
        if smash_noise:
            smashed = noisy(key, smashed, smash_noise)
        sent = _centred(smashed)
        found.append(Leak(cut, _correlation(given, sent), _correlation(given, sent[others][:, others])))
    return found
