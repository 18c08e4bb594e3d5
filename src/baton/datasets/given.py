"""`baton.Data`: arrays that a program or a notebook has, taken wherever a data set's name is."""

from typing import Annotated, Any

from baton.datasets.arrays import Part, made, plain
from baton.datasets.base import Dataset, Source
from baton.errors import BadInput
from baton.names import Rest

_GIVEN: dict[str, Dataset] = {}  # by content, as long as this process lives


class Data:
    """Samples x [N, ...], what is to be told of each y [N], and whose they are: NumPy, pandas or torch.

    sites: a name or number a sample. test: (x, y) or (x, y, sites) to test on, or the share of each site and class that
    is held back, keyed by split_seed. weight: what each sample counts in training. task: classify or regress, where the
    labels do not say. scale: pooled, site or none, as of a table: columns of x [N, features] and a regression's labels
    less the mean and over the deviation of training samples. `spec` names it in settings and stores; what is behind it
    is in this process alone.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        sites: Any = None,
        test: Any = 0.2,
        *,
        weight: Any = None,
        split_seed: int = 0,
        task: str = "",
        scale: str = "pooled",
    ) -> None:
        train = Part(plain(x, "x"), plain(y, "y"), None if sites is None else plain(sites, "sites"))
        held = float(test) if isinstance(test, int | float) else _part(test)
        self.dataset = made(train, held, None if weight is None else plain(weight, "weight"), split_seed, task, scale)
        self.spec = f"data:{self.dataset.content}"
        _GIVEN[self.dataset.content] = self.dataset

    def __repr__(self) -> str:
        return f"<{self.spec}: {self.dataset.notes[0]}>"


def _part(test: Any) -> Part:
    if not isinstance(test, tuple | list) or len(test) not in (2, 3):
        raise BadInput(f"data: test is a {type(test).__name__}; a share such as 0.2, (x, y) or (x, y, sites) is right")
    names = ("test_x", "test_y", "test_sites")
    return Part(*(plain(value, name) for value, name in zip(test, names, strict=False)))


def load(clients: int, *, content: Annotated[str, Rest(str)]) -> Dataset:
    """Arrays that were given as baton.Data in this very process."""
    if content not in _GIVEN:
        raise BadInput(
            f"dataset: data:{content} are arrays that a Python program gave as baton.Data; to go on with its runs, "
            "make them again there"
        )
    return _GIVEN[content]


GIVEN = Source(load, model="logistic", clients=0)
