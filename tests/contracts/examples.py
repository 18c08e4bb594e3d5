"""An example spec for each registered name, and the few lines that run lanes without a store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from baton.algorithms import ALGORITHMS
from baton.datasets import DATASETS
from baton.errors import BadInput
from baton.models import MODELS
from baton.names import options
from baton.partitions import PARTITIONS
from baton.rates import RATES
from baton.schedules import SCHEDULES
from baton.setting import Setting
from baton.simulate.engine import Program, Snapshot, advance, start

CPU = torch.device("cpu")
PATIENTS, ARRAYS = Path(__file__).with_name("patients.csv"), Path(__file__).with_name("patients.npz")

# Names that cannot be written bare, or whose options deserve a run of their own.
SPECS = {
    "algorithm": {
        "parallel": ["parallel", "parallel:weighting=size", "parallel:server_lr=0.5"],
        "fedprox": ["fedprox:mu=0.3", "fedprox:weighting=size"],
        "sequential": ["sequential", "sequential:mu=0.3,decay=0.8", "sequential:ema=0.5"],
        "fedavgm": ["fedavgm", "fedavgm:beta=0.5,server_lr=0.7,weighting=size", "fedavgm:of=sequential"],
        "scaffold": [
            "scaffold",
            "scaffold:server_lr=0.5,weighting=size",
            "scaffold:option=1",
            "scaffold:of=sequential",
        ],
        "feddyn": ["feddyn", "feddyn:alpha=0.2,weighting=size"],
        "fednova": ["fednova", "fednova:weighting=size"],
        "fedadagrad": ["fedadagrad"],
        "fedadam": ["fedadam:server_lr=0.01", "fedadam:server_lr=0.01,of=sequential"],
        "fedyogi": ["fedyogi:server_lr=0.01"],
        "fedseq": ["fedseq:groups=1", "fedseq:groups=1,weighting=size"],  # divides any S; more in test_methods.py
        "fedseqinter": ["fedseqinter:groups=1,every=2"],
        "feddc": ["feddc:every=2", "feddc:every=3,swap=2"],
        "switch": ["switch:after=2", "switch:first=scaffold,then=feddyn:alpha=0.2,after=1"],
        "amplified": ["amplified:every=2,server_lr=1.5"],
        "amplified_scaffold": [
            "amplified_scaffold:every=2,server_lr=1.5",
            "amplified_scaffold:every=3,weighting=size",
        ],
        "ssl": [
            "ssl:cut=1",
            "ssl:cut=2,relay=server,clip=per_side,passes=1",
            "ssl:cut=1,head=4,smash_noise=0.1",
        ],
        "splitfed": ["splitfed:cut=1", "splitfed:cut=3,version=2,weighting=size", "splitfed:cut=3,head=4,passes=1"],
    },
    "schedule": {
        "cyclic": ["cyclic:groups=1"],  # fits any S; more in test_orders.py
        "grouped": ["grouped:each=1", "grouped:each=1,by=size", "grouped:each=1,by=labels"],
        "markov": ["markov", "markov:share=0.2,stay=3"],
        "file": [],  # an order fits one M and one S: test_orders.py
    },
    "lr_schedule": {
        "constant": ["constant", "constant:warmup=3"],
        "step": ["step:every=10", "step:every=3,factor=0.5,warmup=2"],
        "exponential": ["exponential", "exponential:factor=0.5", "exponential:warmup=4"],
        "cosine": ["cosine", "cosine:floor=0.1", "cosine:over=50,warmup=5"],
    },
    "partition": {
        "iid": ["iid", "iid:min_samples=0"],
        "dirichlet": ["dirichlet:alpha=0.3", "dirichlet:alpha=10,min_samples=5"],
        "classes": ["classes:C=1", "classes:C=3"],
        "shards": ["shards:n=2", "shards:n=5,min_samples=3"],
        "file": [],  # a map fits one data set and one M: tests/test_partitions.py
        "exdir": [
            "exdir:C=2,alpha=10",
            "exdir:C=1,alpha=1,form=plain,min_samples=1",
            "exdir:C=10,alpha=0.5,min_samples=1",
            "exdir:C=2,alpha=1,min_samples=0,exact=true",
        ],
    },
    "model": {
        "mlp": ["mlp", "mlp:hidden=7,dropout=0"],
    },
    "dataset": {
        "quadratic": ["quadratic", "quadratic:zeta=10,delta=1/3"],
        "csv": [f"csv:{PATIENTS},label=sick,site=site", f"csv:{PATIENTS},label=dose,site=site,scale=site"],
        "npz": [f"npz:{ARRAYS}"],
        "npy": [],  # these three: tests/test_data_python.py
        "images": [],
        "data": [],
        "quadratic_random": ["quadratic_random:dim=3", "quadratic_random:dim=2,sigma=1,delta=0.5"],
        "quadratic_sides": ["quadratic_sides", "quadratic_sides:mu=0.5,zeta=2"],
        "sites": [],  # its samples are at sites: tests/test_deploy_run.py
    },
}
# Where a name fits only some data.
DATA = {
    "partition": {"natural": "quadratic_random:dim=2"},
    "model": {
        "quadratic": "quadratic_random:dim=2,zeta=3",
        "lenet5": "user_modules:pictures:channels=1,side=28",
        "cnn": "user_modules:pictures:channels=1,side=28",
        "vgg9": "user_modules:pictures",
        "resnet18": "user_modules:pictures:side=8",
    },
}
BAD = {  # to be refused in one line
    "algorithm": [
        "parallel:weighting=mine",
        "parallel:server_lr=0",
        "parallel:server_lr=nan",
        "parallel:server_lr=x",
        "fedprox:mu=-1",
        "fedprox:weighting=mine",
        "fedavgm:beta=1",
        "scaffold:server_lr=0",
        "fedseq",
        "fedseq:groups=0",
        "fedseq:groups=11",  # S = 10
        "sequential:mu=-1",
        "sequential:decay=0",
        "sequential:last=0",
        "sequential:last=11",  # S = 10
        "sequential:last=2,ema=0.5",
        "scaffold:option=3",
        "scaffold:option=1,of=sequential",
        "scaffold:of=chain",
        "fedavgm:of=sequential,weighting=size",
        "feddyn:alpha=0",
        "fednova:weighting=mine",
        "fedadam:beta2=1",
        "fedadam:tau=0",
        "fedyogi:of=both",
        "fedadagrad:server_lr=0",
        "fedseqinter:groups=2,every=0",
        "feddc:every=0",
        "feddc:swap=0",
        "switch:at=2",
        "switch:after=-1",
        "switch:after=3,at=0.5",
        "switch:then=fedprx",
        "switch:then=fedprox:nu=3",
        "switch:then=switch",
        "switch:then=user_modules:lazy",
        "switch:first=ssl:cut=1",
        "amplified",
        "amplified:every=0",
        "amplified_scaffold:every=0",
        "flgrab:weighting=mine",
        "feddyn:weighting=mine",
        "amplified_scaffold:every=2,weighting=mine",
        "ewc:strength=-1",
        "ssl",
        "ssl:cut=1",  # logistic regression has one layer
        "ssl:cut=1,relay=post",
        "ssl:cut=1,clip=none",
        "ssl:cut=1,smash_noise=-1",
        "ssl:cut=1,smash_noise=nan",
        "ssl:cut=1,passes=-1",
        "splitfed",
        "splitfed:cut=1,version=3",
        "splitfed:cut=1,weighting=mine",
        "splitfed:cut=1,clip=both",
    ],
    "schedule": ["shuffled:speed=3", "cyclic", "grouped", "file"],
    "lr_schedule": [
        "cosin",
        "constant:warmup=-1",
        "constant:warmup=2.5",
        "step",
        "step:every=0",
        "step:every=5,factor=0",
        "step:every=5,factor=1.5",
        "step:every=5,factor=nan",
        "exponential:factor=2",
        "exponential:warmup=-2",
        "cosine:over=0",
        "cosine:over=5,warmup=5",
        "cosine:warmup=100",  # R = 100
        "cosine:floor=-0.1",
        "cosine:floor=nan",
    ],
    "partition": [
        "iid:seed=-1",
        "dirichlet",
        "dirichlet:alpha=0",
        "dirichlet:alpha=nan",
        "dirichlet:alpha=1,min_samples=100000",
        "dirichlet:alpha=1,seed=-1",
        "exdir:C=0,alpha=1",
        "exdir:C=11,alpha=1",
        "exdir:C=1.5,alpha=1",
        "exdir:C=1,alpha=-1",
        "exdir:C=1,alpha=1,form=odd",
        "exdir:C=1,alpha=1,seed=-1",
        "exdir:C=1,alpha=1,exact=3",
        "iid:min_samples=-1",
        "iid:min_samples=100000",
        "classes",
        "classes:C=0",
        "classes:C=11",
        "classes:C=1,seed=-1",
        "shards",
        "shards:n=0",
        "shards:n=99999999999",
        "shards:n=2,min_samples=144",
        "shards:n=2,seed=-1",
        "file",
        "file:",
        "file:no such file.json",
        "natural",
    ],
    "model": [
        "mlp:hidden=0",
        "mlp:hidden=-3",
        "mlp:dropout=1.5",
        "mlp:dropout=-0.5",
        "mlp:dropout=nan",
        "mlp:width=3",
        "quadratic",
        "quadratic:start=nan",
        "lenet5",  # the digits are rows of 64 numbers, not images
        "cnn",
        "vgg9",
        "resnet18",
    ],
    "dataset": [
        "digits:size=3",
        "csv",
        "csv:no such file.csv,label=y",
        "npz:no such file.npz",
        "npy:x.npy",
        "images:no such folder",
        "data:0123456789abcdef",
        "heart:site=va",
        "quadratic:delta=2",
        "quadratic_random:dim=0",
        "quadratic_sides:mu=0",
        "quadratic_sides:zeta=-1",
        f"quadratic_random:seed={1 << 64}",
    ],
}
ON_DISK = {
    "mnist",
    "fashion_mnist",
    "cifar10",
    "cinic10",
    "heart",
}  # lie in files: run by the tests that make such files
ROOMS = {
    "algorithm": ALGORITHMS,
    "schedule": SCHEDULES,
    "lr_schedule": RATES,
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
    return [spec for name in ROOMS[room] if name not in ON_DISK for spec in SPECS[room].get(name, [name])]


def cases(every: Sequence[Any], few: Sequence[Any] = ()) -> list[Any]:
    """All of them, of which a few always run, the others in the long tests; few: left out, the first of each name.

    A case is a spec, or several arguments that begin with one.
    """

    def several(case: Any) -> tuple[Any, ...]:
        return case if isinstance(case, tuple) else (case,)

    first = {several(case)[0].partition(":")[0]: case for case in reversed(every)}
    always = set(few or first.values())
    return [case if case in always else pytest.param(*several(case), marks=pytest.mark.long) for case in every]


def data_for(room: str, spec: str) -> str:
    """A data set that a partition or model fits."""
    return DATA[room].get(spec.partition(":")[0], "digits")


def stages(settings: Sequence[Setting]) -> tuple[Program, list[Snapshot]]:
    """All lanes from the start to the last round, and every snapshot on the way."""
    program = Program(settings, CPU)
    begin = start(program)
    return program, [still(begin), *(still(at) for at in advance(program, begin))]


def still(at: Snapshot) -> Snapshot:
    """With its own copy of what clients keep, which training writes over."""
    return at._replace(clients={name: leaf.clone() for name, leaf in at.clients.items()})


def finish(settings: Sequence[Setting]) -> tuple[Program, Snapshot]:
    """The last snapshot."""
    program, seen = stages(settings)
    return program, seen[-1]


def series(at: Snapshot, metric: str, lane: int = 0) -> dict[int, float]:
    """One lane's metric by round."""
    return {round: float(values[lane]) for round, values in at.history[metric]}


def refused(settings: dict[str, object]) -> str:
    """The line with which a run that cannot be is refused, at the latest before it trains."""
    with pytest.raises(BadInput) as error:
        start(Program([Setting(**settings)], CPU))
    return str(error.value)
