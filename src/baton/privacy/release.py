"""What a client tells of a leg: its displacement, cut to a norm, with noise on every number."""

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from baton import rng
from baton.lanes import Params, per_lane

Draw = Callable[[int, Tensor], Tensor]  # (a leaf's number, the leaf [N, ...]) -> N(0, 1), independent, like the leaf


def released(start: Params, end: Params, clip: Tensor, noise: Tensor, draw: Draw) -> Params:
    """start + (cut(end - start) + noise), for legs [N, ...]; clip, noise [N].

    A displacement that is not finite counts as none: that training failed is not told either. The sum in brackets comes
    first, so that rounding at a start of large numbers cannot take the noise away and leave the rest. Where nothing is
    cut and nothing added, it is `end` to the bit.
    """
    away = {n: leaf - start[n] for n, leaf in end.items()}
    norms = [
        torch.linalg.vector_norm(away[n].reshape(len(away[n]), -1), dim=1, dtype=torch.float64) for n in sorted(away)
    ]
    norm = torch.linalg.vector_norm(torch.stack(norms), dim=0)  # in float64: nothing overflows
    sound, limit = norm.isfinite(), clip.double()
    share, std, made = (limit / norm).clamp(max=1.0), noise * clip, Params()
    exact = (norm <= limit) & (std == 0)
    for number, (n, leaf) in enumerate(end.items()):
        short = torch.where(per_lane(sound, leaf), away[n] * per_lane(share, leaf).to(leaf.dtype), 0.0)
        told = start[n] + torch.addcmul(short, per_lane(std, leaf).to(leaf.dtype), draw(number, leaf))
        made[n] = torch.where(per_lane(exact, leaf), leaf, told)
    return made


def keyed(key: Tensor) -> Draw:
    """Drawn from the keys of visits [N], as everything in a simulation is: whoever knows the seed knows the noise."""

    def draw(number: int, leaf: Tensor) -> Tensor:
        place = torch.arange(leaf[0].numel(), device=leaf.device)
        return rng.normal(rng.bits(key.unsqueeze(1), rng.PRIVACY, number, place), leaf.dtype).view(leaf.shape)

    return draw


def secret(own: bytes, about: bytes) -> Draw:
    """Drawn from a secret of the site's own and from all that its leg depends on, by SHAKE-256.

    The same leg asked for again has the same noise, so that asking again tells nothing new; any other leg has other
    noise. Without the secret nobody can compute it, or tell it from chance.
    """

    def draw(number: int, leaf: Tensor) -> Tensor:
        count = leaf.numel()
        pairs = (count + 1) // 2
        stream = hashlib.shake_256(own + hashlib.sha256(about + number.to_bytes(8, "little")).digest())
        words = np.frombuffer(stream.digest(16 * pairs), "<u8").reshape(2, pairs)
        u, v = ((words >> np.uint64(11)).astype(np.float64) + np.array([[0.5], [0.0]])) * 2.0**-53
        far, way = np.sqrt(-2.0 * np.log(u)), 2.0 * np.pi * v  # Box-Muller
        found = np.concatenate([far * np.cos(way), far * np.sin(way)])[:count]
        return torch.from_numpy(found).to(leaf.dtype).view(leaf.shape)

    return draw
