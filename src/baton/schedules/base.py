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
    held: bool = False  # it asks for what clients hold, after S: a Held


class Held(NamedTuple):
    """What clients hold, as far as a schedule may know it."""

    labels: Tensor  # [P, M, classes] samples of each label at each client; one column where there are no labels
    table: Tensor  # [n] which of the P tables belongs to a row


def declares(
    *, uniform: bool = False, repeats: bool = False, fresh: bool = False, held: bool = False
) -> Callable[[Function], Function]:
    """Puts on a schedule what it says of itself: `@declares(uniform=True)`."""

    def mark(schedule: Function) -> Function:
        schedule.declared = Declared(uniform, repeats, fresh, held)  # type: ignore[attr-defined]
        return schedule

    return mark


def declared(schedule: Callable[..., Tensor]) -> Declared:
    """What a schedule says of itself."""
    return getattr(schedule, "declared", Declared())


def checked(order: Any, name: str, n: int, clients: int, participants: int, repeats: bool) -> Tensor:
    """The order [n, S] as int64, refused in one line where it is none. name: how the line calls the schedule."""
    name = f"schedule: {name}"
    whole = shaped(order, name, n, participants, "pair of seed and round")
    inside(whole, name, clients)
    if not repeats:
        once(whole, name, "@declares(repeats=True)")
    return whole


def shaped(order: Any, name: str, n: int, participants: int, row: str) -> Tensor:
    """An order as int64; name: how an error line begins, row: what there is one of for each."""
    right = f"a tensor of whole numbers [{n}, {participants}], one row a {row}, is right"
    if not isinstance(order, Tensor):
        raise BadInput(f"{name} gives a {type(order).__name__}; {right}")
    if order.shape != (n, participants):
        raise BadInput(f"{name} gives the shape {list(order.shape)}; {right}")
    if order.is_floating_point() or order.is_complex() or order.dtype == torch.bool:
        raise BadInput(f"{name} gives {str(order.dtype).removeprefix('torch.')}; {right}")
    whole: Tensor = order.long()
    return whole


def inside(order: Tensor, name: str, clients: int) -> None:
    """Refuse clients that there are not."""
    outside = order[(order < 0) | (order >= clients)]
    if len(outside):
        raise BadInput(f"{name} gives client {int(outside[0])}; 0 to {clients - 1} is right")


def once(order: Tensor, name: str, otherwise: str) -> None:
    """Refuse a client that stands twice in a row."""
    ranked = order.sort(1).values
    twice = ranked[:, 1:][ranked[:, 1:] == ranked[:, :-1]]
    if len(twice):
        again = f"has client {int(twice[0])} twice in a round"
        raise BadInput(f"{name} {again}; each once is right, or {otherwise}")
