"""Schedules by name: who takes part in a round, and in what order.

A schedule is a function (seed [n], round [n], clients M, participants S, *, options) -> order [n, S], whole numbers: a
row for each pair of a lane's seed and a round's number, which depends on that pair alone. What else may be relied on it
says by `@declares(...)`; a client stands twice in a round only where it says so. To add one: its file and one line in
SCHEDULES.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from baton.names import bind
from baton.schedules.base import Declared, checked, declared, declares, inside, once, shaped
from baton.schedules.fixed import fixed
from baton.schedules.shuffled import shuffled
from baton.usercode import call, written_in

SCHEDULES: dict[str, Callable[..., Tensor]] = {"shuffled": shuffled, "fixed": fixed}

__all__ = [
    "SCHEDULES",
    "Declared",
    "Schedule",
    "build",
    "checked",
    "declared",
    "declares",
    "inside",
    "once",
    "shaped",
]


class Schedule(NamedTuple):
    """A schedule with its options."""

    draw: Callable[[Tensor, Tensor, int, int], Tensor]  # (seed [n], round [n], M, S) -> order [n, S], as it comes
    declared: Declared
    place: str  # its name and where it is written, for `checked`
    registered: bool  # and so tested to give what it should; a user's own is to be checked


def build(spec: str) -> Schedule:
    """The schedule a spec names."""
    name, function, options = bind("schedule", spec, SCHEDULES)

    def draw(seed: Tensor, round: Tensor, clients: int, participants: int) -> Tensor:
        order: Tensor = call("schedule", name, function, seed, round, clients, participants, **options)
        return order

    return Schedule(draw, declared(function), f"{name} ({written_in(function)})", name in SCHEDULES)
