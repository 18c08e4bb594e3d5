"""Baton: sequential and parallel federated learning, compared by measurement and by theory.

    import baton

    setting = baton.Setting(partition="exdir:C=1,alpha=10", clients=20, participants=5)
    runs = baton.run([setting, setting.replace(algorithm="parallel")])
    runs.frame(), runs.plot()                       # a pandas table, a picture
    runs[0].module(), runs[0].predict(x)            # the trained torch.nn.Module, labels of samples
    print(runs.compare())                           # how far apart they are, and whether one can tell
    print(baton.compare(dataset="breast_cancer"))   # both at their best learning rates, over seeds: which is ahead
    print(baton.advise(setting))                    # which of the two, from a short probe
    baton.tune(baton.study.read("digits"))          # a grid search
    baton.theory.bound("sequential", "convex", L=1, sigma=1, zeta=1, D=1, M=10, K=5, R=1000)

Setting: the knobs of one run. Data: arrays in place of a data set's name. Study: a TOML file of many settings. Store: a
folder of runs. BadInput: what is raised where something is not right, in one line.
"""

TYPE_CHECKING = False  # nothing is imported here: under `python -m` the working folder still comes first
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.3.0.dev0"
__all__ = [
    "BadInput",
    "Data",
    "Run",
    "Runs",
    "Setting",
    "Store",
    "Study",
    "advise",
    "compare",
    "run",
    "study",
    "theory",
    "tune",
]

_HOMES = {  # name -> the module that has it; "": it is one. Their types are in __init__.pyi
    "BadInput": "errors",
    "Data": "datasets",
    "Run": "trained",
    "Runs": "trained",
    "Setting": "setting",
    "Store": "store",
    "Study": "study",
    "advise": "api",
    "compare": "api",
    "run": "api",
    "study": "",
    "theory": "",
    "tune": "api",
}


def __getattr__(name: str) -> "Any":
    """Loaded on first use: `baton --help` need not wait for torch."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'baton' has no attribute {name!r}")
    home = _HOMES[name]
    return getattr(import_module(f"baton.{home}"), name) if home else import_module(f"baton.{name}")


def __dir__() -> list[str]:
    """What there is, for completion."""
    return sorted([*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"])
