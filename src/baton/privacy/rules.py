"""What is done to a leg's displacement before it is told, by name."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from baton.algorithms import Algorithm
from baton.errors import BadInput
from baton.names import bind, lane, lanes_of, path


class Protection(NamedTuple):
    """Of each lane: [L]."""

    clip: Tensor  # the largest norm of a displacement
    noise: Tensor  # the standard deviation of what is added to each of its numbers, in clips


def none() -> None:
    """A leg's model is told as it is."""


def gaussian(*, clip: Tensor = lane(1.0, above=0.0), noise: Tensor = lane(1.0, least=0.0)) -> Protection:
    """A leg's displacement is cut to the norm `clip`, and N(0, (noise clip)^2) is added to each of its numbers.

    At the client, before anybody else sees it. What that hides from whom: docs/privacy.md, `baton privacy`.
    """
    return Protection(clip, noise)


DP: dict[str, Callable[..., Protection | None]] = {"none": none, "gaussian": gaussian}


def build(specs: Sequence[str], dtype: torch.dtype, device: torch.device | None = None) -> Protection | None:
    """What specs say, one a lane; None: nothing is done."""
    if own := path(specs[0], DP):
        raise BadInput(f"dp: {own} is code of your own; none or gaussian:clip=1,noise=0.8 is right")
    make: Callable[..., Protection | None] = bind("dp", specs[0], DP)[1]
    numbers = [lanes_of("dp", spec, DP) for spec in specs]
    return make(**{k: torch.tensor([n[k] for n in numbers], dtype=dtype, device=device) for k in numbers[0]})


def noise_of(spec: str) -> float:
    """Its noise multiplier; 0: none."""
    return lanes_of("dp", spec, DP).get("noise", 0.0)


def refuse(spec: str, algorithm: Algorithm, called: str) -> None:
    """Refuse algorithms that tell more of a client than where its legs end."""
    build([spec], torch.float64)
    if spec == "none":
        return
    if not algorithm.sends:
        raise BadInput(f"dp: {spec}; {called} sends nothing that could be hidden: none is right")
    more = "a layer's outputs for single samples" if algorithm.split else "gradients" if algorithm.looks else ""
    if more:
        raise BadInput(f"dp: {spec}; {called} sends {more} too, which it does not cover: none is right")
