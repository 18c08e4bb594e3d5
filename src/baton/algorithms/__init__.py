"""Algorithms by name: functions (*, options) -> Algorithm. To add one: its file and one line in ALGORITHMS."""

from collections.abc import Callable, Sequence

import torch

from baton.algorithms.alone import alone
from baton.algorithms.base import Algorithm
from baton.algorithms.checks import held_to
from baton.algorithms.fedavgm import fedavgm
from baton.algorithms.fedprox import fedprox
from baton.algorithms.fedseq import fedseq
from baton.algorithms.parallel import parallel
from baton.algorithms.pooled import pooled
from baton.algorithms.scaffold import scaffold
from baton.algorithms.sequential import sequential
from baton.algorithms.splitfed import splitfed
from baton.algorithms.ssl import ssl
from baton.names import bind, lanes_of
from baton.seam import Cohort, Leg, Local, Now, Reply, Sites, Split, State
from baton.usercode import call, own

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "sequential": sequential,
    "parallel": parallel,
    "fedprox": fedprox,
    "fedavgm": fedavgm,
    "scaffold": scaffold,
    "fedseq": fedseq,
    "ssl": ssl,
    "splitfed": splitfed,
    "alone": alone,
    "pooled": pooled,
}

CANDIDATES = ("sequential", "parallel", "parallel:weighting=size")  # specs that 'baton advise' tries

__all__ = [
    "ALGORITHMS",
    "CANDIDATES",
    "Algorithm",
    "Cohort",
    "Leg",
    "Local",
    "Now",
    "Reply",
    "Sites",
    "Split",
    "State",
    "build",
    "called",
]


def build(
    spec: str | Sequence[str], dtype: torch.dtype = torch.float64, device: torch.device | None = None
) -> Algorithm:
    """The algorithm that specs name: one a lane, and they differ in options that are lanes only."""
    specs = [spec] if isinstance(spec, str) else spec
    name, make, options = bind("algorithm", specs[0], ALGORITHMS)
    numbers = [lanes_of("algorithm", each, ALGORITHMS) for each in specs]
    columns = {k: torch.tensor([n[k] for n in numbers], dtype=dtype, device=device) for k in numbers[0]}
    made: Algorithm = call("algorithm", name, make, **{**options, **columns})
    return held_to(made, name, make) if own(name) else made


def called(spec: str) -> str:
    """The name of the algorithm that a spec names: registered, or `package.module:factory`."""
    return bind("algorithm", spec, ALGORITHMS)[0]
