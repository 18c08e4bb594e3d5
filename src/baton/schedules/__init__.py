"""Schedules by name: who takes part in a round, and in what order.

A schedule is a function (seed [n], round [n], clients M, participants S, *, options) -> order [n, S], whole numbers: a
row for each pair of a lane's seed and a round's number, which depends on that pair alone; one that declares `held` is
told, after S, what clients hold, and depends on that too. What else may be relied on it says by `@declares(...)`; a
client
stands twice in a round only where it says so. To add one: its file and one line in SCHEDULES.
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from baton.errors import BadInput
from baton.names import bind
from baton.schedules.base import Declared, Held, checked, declared, declares, inside, once, shaped
from baton.schedules.cyclic import cyclic
from baton.schedules.epochs import flipflop, incremental, reshuffled
from baton.schedules.epochs import once as once_shuffled
from baton.schedules.fixed import fixed
from baton.schedules.from_file import file
from baton.schedules.grouped import grouped
from baton.schedules.markov import markov
from baton.schedules.replacement import replacement
from baton.schedules.shuffled import shuffled
from baton.schedules.sized import sized
from baton.usercode import call, written_in

SCHEDULES: dict[str, Callable[..., Tensor]] = {
    "shuffled": shuffled,
    "fixed": fixed,
    "replacement": replacement,
    "incremental": incremental,
    "once": once_shuffled,
    "reshuffled": reshuffled,
    "flipflop": flipflop,
    "sized": sized,
    "cyclic": cyclic,
    "grouped": grouped,
    "markov": markov,
    "file": file,
}

__all__ = [
    "SCHEDULES",
    "Declared",
    "Held",
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

    draw: Callable[..., Tensor]  # (seed [n], round [n], M, S, what clients hold) -> order [n, S], as it comes
    declared: Declared
    place: str  # its name and where it is written, for `checked`
    registered: bool  # and so tested to give what it should; a user's own is to be checked


def build(spec: str) -> Schedule:
    """The schedule a spec names."""
    name, function, options = bind("schedule", spec, SCHEDULES)

    said = declared(function)

    def draw(seed: Tensor, round: Tensor, clients: int, participants: int, held: Held | None = None) -> Tensor:
        if said.held and held is None:
            raise BadInput(f"schedule: {name} needs to know what clients hold, and nobody tells; another is right here")
        more = (held,) if said.held else ()
        order: Tensor = call("schedule", name, function, seed, round, clients, participants, *more, **options)
        return order

    return Schedule(draw, said, f"{name} ({written_in(function)})", name in SCHEDULES)
