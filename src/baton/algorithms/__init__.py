"""Algorithms by name: functions (*, options) -> Algorithm. To add one: its file and one line in ALGORITHMS."""

from collections.abc import Callable, Sequence

import torch

from baton.algorithms.alone import alone
from baton.algorithms.amplified import amplified, amplified_scaffold
from baton.algorithms.base import Algorithm
from baton.algorithms.checks import held_to
from baton.algorithms.ewc import ewc
from baton.algorithms.fedavgm import fedavgm
from baton.algorithms.feddc import feddc
from baton.algorithms.feddyn import feddyn
from baton.algorithms.fednova import fednova
from baton.algorithms.fedopt import fedadagrad, fedadam, fedyogi
from baton.algorithms.fedprox import fedprox
from baton.algorithms.fedseq import fedseq, fedseqinter
from baton.algorithms.grab import flgrab, pairgrab
from baton.algorithms.parallel import parallel
from baton.algorithms.pooled import pooled
from baton.algorithms.scaffold import scaffold
from baton.algorithms.sequential import sequential
from baton.algorithms.splitfed import splitfed
from baton.algorithms.ssl import ssl
from baton.algorithms.switch import switch
from baton.errors import BadInput
from baton.names import bind, extended, inner, lanes_of, without
from baton.seam import Cohort, Leg, Local, Now, Reply, Sites, Split, State
from baton.usercode import call, own

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "sequential": sequential,
    "parallel": parallel,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "feddyn": feddyn,
    "fednova": fednova,
    "fedavgm": fedavgm,
    "fedadagrad": fedadagrad,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedseq": fedseq,
    "fedseqinter": fedseqinter,
    "feddc": feddc,
    "switch": switch,
    "amplified": amplified,
    "amplified_scaffold": amplified_scaffold,
    "pairgrab": pairgrab,
    "flgrab": flgrab,
    "ewc": ewc,
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
    "filled",
]


def build(
    spec: str | Sequence[str], dtype: torch.dtype = torch.float64, device: torch.device | None = None
) -> Algorithm:
    """The algorithm that specs name: one a lane, and they differ in options that are lanes only."""
    specs = [spec] if isinstance(spec, str) else spec
    name, make, options = bind("algorithm", specs[0], ALGORITHMS)
    numbers = [lanes_of("algorithm", each, ALGORITHMS) for each in specs]
    columns = {k: torch.tensor([n[k] for n in numbers], dtype=dtype, device=device) for k in numbers[0]}
    nested = [inner("algorithm", each, ALGORITHMS) for each in specs]
    parts = {k: build([each[k] for each in nested], dtype, device) for k in nested[0]}
    made: Algorithm = call("algorithm", name, make, **{**options, **columns, **parts})
    return held_to(made, name, make) if own(name) else made


def filled(spec: str, rounds: int) -> str:
    """The spec of a switch with the round it comes after, where that was left out or said as a share of all rounds."""
    name, _, given = bind("algorithm", spec, ALGORITHMS)
    if name != "switch" or "after" in given:
        return spec
    share = float(given.get("at", 0.1))
    if not 0 <= share <= 1:
        raise BadInput(f"algorithm: switch has at={share:g}; a share of the rounds, 0 to 1, is right")
    less = without("algorithm", spec, ALGORITHMS, {"at"})
    return extended("algorithm", less, ALGORITHMS, "after", round(share * rounds))


def called(spec: str) -> str:
    """The name of the algorithm that a spec names: registered, or `package.module:factory`."""
    return bind("algorithm", spec, ALGORITHMS)[0]
