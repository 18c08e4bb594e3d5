"""What a schedule says of itself, and what every schedule is held to."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from baton.errors import BadInput

Function = TypeVar("Function", bound=Callable[..., Tensor])


class Declared(NamedTuple):
    """What may be relied on; a schedule that says nothing promises nothing but S different clients."""

    uniform: bool = False  # over random seeds, each place of a round is uniform over the clients
    repeats: bool = False  # a client may stand twice in a round
    fresh: bool = False  # drawn anew each round, independently of other rounds


def declares(*, uniform: bool = False, repeats: bool = False, fresh: bool = False) -> Callable[[Function], Function]:
    """Puts on a schedule what it says of itself: `@declares(uniform=True)`."""

    def mark(schedule: Function) -> Function:
        schedule.declared = Declared(uniform, repeats, fresh)  # type: ignore[attr-defined]
        return schedule

    return mark


def declared(schedule: Callable[..., Tensor]) -> Declared:
    """What a schedule says of itself."""
    return getattr(schedule, "declared", Declared())


def checked(order: Any, name: str, n: int, clients: int, participants: int, repeats: bool) -> Tensor:
    """The order [n, S] as int64, refused in one line where it is none. name: how the line calls the schedule."""
    right = f"a tensor of whole numbers [{n}, {participants}], one row a pair of seed and round, is right"
    if not isinstance(order, Tensor):
        raise BadInput(f"schedule: {name} gives a {type(order).__name__}; {right}")
    if order.shape != (n, participants):
        raise BadInput(f"schedule: {name} gives the shape {list(order.shape)}; {right}")
    if order.is_floating_point() or order.is_complex() or order.dtype == torch.bool:
        raise BadInput(f"schedule: {name} gives {str(order.dtype).removeprefix('torch.')}; {right}")
    whole: Tensor = order.long()
    outside = whole[(whole < 0) | (whole >= clients)]
    if len(outside):
        raise BadInput(f"schedule: {name} gives client {int(outside[0])}; 0 to {clients - 1} is right")
    ranked = whole.sort(1).values
    twice = ranked[:, 1:][ranked[:, 1:] == ranked[:, :-1]]
    if len(twice) and not repeats:
        again = f"has client {int(twice[0])} twice in a round"
        raise BadInput(f"schedule: {name} {again}; each once is right, or @declares(repeats=True)")
    return whole
