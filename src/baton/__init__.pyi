from baton import study as study
from baton import theory as theory
from baton.api import advise as advise
from baton.api import compare as compare
from baton.api import run as run
from baton.api import tune as tune
from baton.datasets import Data as Data
from baton.errors import BadInput as BadInput
from baton.setting import Setting as Setting
from baton.store import Store as Store
from baton.study import Study as Study
from baton.trained import Run as Run
from baton.trained import Runs as Runs

__version__: str
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
