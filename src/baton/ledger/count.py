"""What a round does, by running it once against sites that train nothing and write down who is handed what.

A model that is handed on as it came back goes from client to client. One that anything is computed from went to the
server first. So no algorithm has to say how its traffic flows: it is seen.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from baton.algorithms import Algorithm
from baton.lanes import Params
from baton.seam import Cohort, Facts, Now, Reply, State

BLIND = {"new_ones", "new_zeros", "new_empty", "new_full", "ones_like", "zeros_like", "empty_like", "full_like"}
SERVER, CLIENT = -1, -2  # who holds a model that no call of this round made
Sizes = dict[str, tuple[int, ...]]  # the shapes of one lane's parameters


class Call(NamedTuple):
    """Legs that a round asked for at once."""

    legs: int
    places: tuple[int, ...] | None  # in the round's order; None: clients of the algorithm's own choice
    source: int  # whose model they start from: the server's, a client's of the round before, or an earlier call's
    ready: frozenset[int]  # calls whose models had to be at the server before
    beside: frozenset[int]  # calls whose server sides had to be trained before
    more: int  # numbers that go down with each model
    up: bool  # whether the trained models go to the server


class Trace(NamedTuple):
    """One round."""

    calls: list[Call]

    @property
    def width(self) -> int:
        """Models that are trained at once."""
        return max((call.legs for call in self.calls), default=1)

    @property
    def held(self) -> int:
        """Copies of the model that are there at once."""
        return max(self.width, sum(call.legs for call in self.calls if call.up))


class _Origin(NamedTuple):
    """Where a tensor comes from."""

    calls: frozenset[int]  # that it depends on
    raw: int | None  # the call whose answer it is, unchanged; SERVER or CLIENT: as the round began; None: computed


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows tensors through operations, by the memory they lie in."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.origin: dict[int, _Origin] = {}
        self.read: set[int] = set()  # calls that something was computed from
        self._alive: list[Tensor] = []  # so that no memory is used twice

    def put(self, x: Tensor, origin: _Origin) -> Tensor:
        self._alive.append(x)
        self.origin[_memory(x)] = origin
        return x

    def of(self, x: Tensor) -> _Origin:
        return self.origin.get(_memory(x), _Origin(frozenset(), None))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every operation passes here; a view lies in the memory of what it shows."""
        made = func(*args, **(kwargs or {}))
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        known = {_memory(x) for x in given}
        fresh = [x for x in tree_leaves(made) if isinstance(x, Tensor) and _memory(x) not in known]
        written = func._schema.is_mutable
        if func._schema.name.partition("::")[2] in BLIND:  # made in its image, not from it
            return made
        if fresh or written:
            calls = frozenset[int]().union(*(self.of(x).calls for x in given))
            self.read |= {raw for x in given if (raw := self.of(x).raw) is not None and raw >= 0}
            for x in fresh or given[:1]:
                self.put(x, _Origin(calls, None))
        return made


def _memory(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


class Counting:
    """Sites that only count."""

    def __init__(self, now: Now, sizes: Sizes, clients_hold: Sequence[str], small: Sizes, seen: _Seen) -> None:
        self.now, self.sizes, self.own, self.small, self.seen = now, sizes, set(clients_hold), small, seen
        self.calls: list[Call] = []
        self.brought: set[int] = set()  # calls whose models were brought to the server

    def train(
        self,
        x: Params,
        clients: Cohort,
        *,
        pull: Tensor | None = None,  # noqa: ARG002
        anchor: Params | None = None,
        shift: Params | None = None,
        sent: Params | None = None,
    ) -> Reply:
        """Writes the call down, and answers with models that are its own."""
        mine = [self.seen.of(leaf) for name, leaf in x.items() if name in self.own]
        rest = [self.seen.of(leaf) for name, leaf in x.items() if name not in self.own]
        raws = {origin.raw for origin in mine}
        source = raws.pop() if len(raws) == 1 else None
        extra = [self.seen.of(leaf) for given in (anchor, shift, sent) for leaf in (given or {}).values()]
        ready = frozenset[int]().union(*(o.calls for o in (extra if source is not None else [*mine, *extra])))
        beside = frozenset[int]().union(*(origin.calls for origin in rest))
        numbers = sum(self._numbers(given) for given in (anchor, shift, sent) if given)
        number = len(self.calls)
        held = SERVER if source is None or source in self.brought else source
        self.calls.append(Call(clients.index.numel(), clients.places, held, ready, beside, numbers, False))
        shape, kind = clients.index.shape, self.now.lr.dtype
        made = {
            name: self.seen.put(
                torch.zeros(*shape, *self.small[name], dtype=kind), _Origin(frozenset([number]), number)
            )
            for name in x
        }
        steps = torch.full(shape, self.now.local_steps)
        return Reply(made, lambda: Facts(torch.ones(shape, dtype=torch.int64), steps, steps.to(kind)), None, True)

    def home(self, x: Params) -> Params:
        """The model is at the server from here on."""
        self.brought |= {raw for leaf in x.values() if (raw := self.seen.of(leaf).raw) is not None and raw >= 0}
        return x

    def sides(self, x: Params) -> tuple[Params, Params]:
        """By name."""
        mine = {name: leaf for name, leaf in x.items() if name in self.own}
        return mine, {name: leaf for name, leaf in x.items() if name not in self.own}

    def _numbers(self, given: Params) -> int:
        """In one lane's tensors; those that stand for a parameter count as the parameter does."""
        total = 0
        for name, leaf in given.items():
            same = name in self.sizes and tuple(leaf.shape[-len(self.small[name]) :]) == self.small[name]
            total += _count(self.sizes[name]) if same else leaf[0].numel()
        return total


def _count(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def count(algorithm: Algorithm, sizes: Sizes, clients_hold: Sequence[str], now: Now) -> Trace:
    """A round of this kind, after others like it: where its model begins is where theirs ended."""
    one_number = {name: (1,) * len(shape) for name, shape in sizes.items()}
    try:
        return _settled(algorithm, sizes, clients_hold, now, one_number)
    except Exception:  # it looks at shapes, or is wrong: then with the model's own, which are those to be told
        return _settled(algorithm, sizes, clients_hold, now, sizes)


def _settled(algorithm: Algorithm, sizes: Sizes, own: Sequence[str], now: Now, small: Sizes) -> Trace:
    trace, ends = _once(algorithm, sizes, own, now, small, SERVER)
    return _once(algorithm, sizes, own, now, small, ends)[0] if ends != SERVER else trace


def _once(
    algorithm: Algorithm, sizes: Sizes, own: Sequence[str], now: Now, small: Sizes, begins: int
) -> tuple[Trace, int]:
    """(the round, who holds its model at the end)."""
    seen = _Seen()
    model = {name: torch.zeros(1, *shape, dtype=now.lr.dtype) for name, shape in small.items()}
    server = algorithm.server(model, now) if algorithm.server else {}
    for leaf in model.values():
        seen.put(leaf, _Origin(frozenset(), begins))
    for leaf in server.values():
        seen.put(leaf, _Origin(frozenset(), SERVER))
    sites = Counting(now, sizes, own, small, seen)
    order = torch.arange(now.participants).unsqueeze(0)
    with seen:
        state = State(model, server)
        new = algorithm.round(state, Cohort.whole(order), sites)
    raws = {seen.of(leaf).raw for name, leaf in new.model.items() if name in sites.own}
    last = raws.pop() if len(raws) == 1 else None
    handed = {call.source for call in sites.calls} | {last}
    calls = [
        call._replace(up=number in seen.read | sites.brought or number not in handed)
        for number, call in enumerate(sites.calls)
    ]
    at_a_client = last is not None and last != SERVER and last not in sites.brought
    return Trace(calls), CLIENT if at_a_client else SERVER
