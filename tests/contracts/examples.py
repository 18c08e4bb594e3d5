"""An example spec for each registered name, and the few lines that run lanes without a store."""

from collections.abc import Iterable, Sequence

import torch

from baton.algorithms import ALGORITHMS
from baton.datasets import DATASETS
from baton.engine import Program, Snapshot, advance, start
from baton.models import MODELS
from baton.names import options
from baton.partitions import PARTITIONS
from baton.schedules import SCHEDULES
from baton.setting import Setting

CPU = torch.device("cpu")

# Names that cannot be written bare, or whose options deserve a run of their own.
SPECS = {
    "algorithm": {
        "parallel": ["parallel", "parallel:weighting=size", "parallel:server_lr=0.5"],
    },
    "schedule": {},
    "partition": {
        "dirichlet": ["dirichlet:alpha=0.3", "dirichlet:alpha=10,min_samples=5"],
        "exdir": ["exdir:C=2,alpha=10", "exdir:C=1,alpha=1,form=plain", "exdir:C=10,alpha=0.5,min_samples=1"],
    },
    "model": {
        "mlp": ["mlp", "mlp:hidden=7,dropout=0"],
    },
    "dataset": {
        "quadratic": ["quadratic", "quadratic:zeta=10,delta=1/3"],
        "quadratic_random": ["quadratic_random:dim=3", "quadratic_random:dim=2,sigma=1,delta=0.5"],
    },
}
ROOMS = {
    "algorithm": ALGORITHMS,
    "schedule": SCHEDULES,
    "partition": PARTITIONS,
    "model": MODELS,
    "dataset": {name: source.load for name, source in DATASETS.items()},
}


def missing(room: str) -> list[str]:
    """Registered names that need options and have no example here."""
    return [
        name
        for name, function in ROOMS[room].items()
        if name not in SPECS[room] and any(p.default is p.empty for p in options(function).values())
    ]


def examples(room: str) -> list[str]:
    """Specs that together use every registered name; a name without an example stands for itself."""
    stale = set(SPECS[room]) - set(ROOMS[room])
    assert not stale, f"tests/contracts/examples.py has {room} examples for {sorted(stale)}, which are not registered"
    return [spec for name in ROOMS[room] for spec in SPECS[room].get(name, [name])]


def stages(settings: Sequence[Setting]) -> tuple[Program, list[Snapshot]]:
    """All lanes from the start to the last round, and every snapshot on the way."""
    program = Program(settings, CPU)
    first = start(program)
    return program, [first, *advance(program, first)]


def finish(settings: Sequence[Setting]) -> tuple[Program, Snapshot]:
    """The last snapshot."""
    program, seen = stages(settings)
    return program, seen[-1]


def series(at: Snapshot, metric: str, lane: int = 0) -> dict[int, float]:
    """One lane's metric by round."""
    return {round: float(values[lane]) for round, values in at.history[metric]}


def clones(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Copies to compare with later."""
    return [t.clone() for t in tensors]
