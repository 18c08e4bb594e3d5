"""The two ways through a round, for methods that stand on either: where it ends, from one model."""

from collections.abc import Callable

from baton.algorithms.mean import average, check_weighting, weights
from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import Cohort, Sites

Way = Callable[[Params, Cohort, Sites], Params]


def check_of(name: str, of: str, weighting: str) -> None:
    """of=parallel: legs side by side, averaged. of=sequential: a chain, in which nothing is weighted."""
    check_weighting(name, weighting)
    if of not in ("parallel", "sequential"):
        raise BadInput(f"algorithm: {name} has of={of}; 'parallel' or 'sequential' is right")
    if of == "sequential" and weighting != "uniform":
        raise BadInput(f"algorithm: {name} has weighting={weighting} and of=sequential; a chain weights nobody")


def way(name: str, of: str, weighting: str) -> Way:
    """A round of this kind, less what the server makes of its end."""
    check_of(name, of, weighting)

    def side_by_side(x: Params, order: Cohort, sites: Sites) -> Params:
        reply = sites.train(x, order)
        return average(reply.x, weights(reply, weighting))

    return side_by_side if of == "parallel" else handed_on


def handed_on(x: Params, order: Cohort, sites: Sites) -> Params:
    """Each client starts from what the one before it made."""
    for client in order:
        x = sites.train(x, client).x
    return x
