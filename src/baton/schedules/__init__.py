"""Schedules by name: who takes part in a round, and in what order.

A schedule is a function (seed [L], round, clients M, participants S, *, options) -> order [L, S], without repeats.
To add one: its file and one line in SCHEDULES.
"""

from collections.abc import Callable

from torch import Tensor

from baton.schedules.fixed import fixed
from baton.schedules.shuffled import shuffled

SCHEDULES: dict[str, Callable[..., Tensor]] = {"shuffled": shuffled, "fixed": fixed}
