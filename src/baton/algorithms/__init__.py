"""Algorithms by name: functions (*, options) -> Algorithm. To add one: its file and one line in ALGORITHMS."""

from collections.abc import Callable

from baton.algorithms.base import Algorithm, Sites, Split
from baton.algorithms.parallel import parallel
from baton.algorithms.sequential import sequential
from baton.algorithms.splitfed import splitfed
from baton.algorithms.ssl import ssl
from baton.names import bind

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "sequential": sequential,
    "parallel": parallel,
    "ssl": ssl,
    "splitfed": splitfed,
}

__all__ = ["ALGORITHMS", "Algorithm", "Sites", "Split", "build"]


def build(spec: str) -> Algorithm:
    """The algorithm a spec names; it checks its own options."""
    _, make, options = bind("algorithm", spec, ALGORITHMS)
    algorithm: Algorithm = make(**options)
    return algorithm
