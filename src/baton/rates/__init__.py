"""Schedules of the learning rate by name: functions (round, *, options) -> factor of lr, in rounds 0, 1, ...

Each has `warmup`: in the first rounds the rate rises linearly, by (round + 1) / warmup, and then the schedule begins at
its own round 0, as in PyTorch's SequentialLR. To add one: its file and one line in RATES.
"""

from collections.abc import Callable
from functools import cache
from math import isfinite

from baton.errors import BadInput
from baton.names import behind, bind, extended, options
from baton.rates.constant import constant
from baton.rates.cosine import cosine
from baton.rates.exponential import exponential
from baton.rates.step import step
from baton.usercode import call, place

FIELD = "lr_schedule"
RATES: dict[str, Callable[..., float]] = {
    "constant": constant,
    "step": step,
    "exponential": exponential,
    "cosine": cosine,
}


def filled(spec: str, rounds: int) -> str:
    """The spec with the run's rounds as its option `over`, where it has one that depends on them and was left out."""
    _, function, given = bind(FIELD, spec, RATES)
    over = options(function).get("over")
    left_out = over is not None and over.default is None and "over" not in given
    return extended(FIELD, spec, RATES, "over", rounds) if left_out else spec


def build(spec: str) -> Callable[[int], float]:
    """The factor of the learning rate by round."""
    return _build(spec, behind(FIELD, spec, RATES))


@cache
def _build(spec: str, own: Callable[..., float] | None) -> Callable[[int], float]:  # noqa: ARG001
    """own: a user's function, which may be another one the next time."""
    name, function, given = bind(FIELD, spec, RATES)

    def factor(round: int) -> float:
        found = call(FIELD, name, function, round, **given)
        number = isinstance(found, int | float)
        if not number or not isfinite(found) or found < 0:
            given_back = found if number else f"a {type(found).__name__}"
            right = f"a number, 0 or more, is right{place(name, function)}"
            raise BadInput(f"{FIELD}: {name} gives {given_back} in round {round}; {right}")
        return float(found)

    return factor
