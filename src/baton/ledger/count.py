"""What a round does, by running it once against sites that train nothing and write down who is handed what.

A model that is handed on as it came back goes from client to client. One that anything is computed from went to the
server first. So no algorithm has to say how its traffic flows: it is seen.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from baton import rng
from baton.algorithms import Algorithm
from baton.lanes import Params
from baton.nn.watched import Watched
from baton.seam import Cohort, Facts, Now, Reply, State

BLIND = {"new_ones", "new_zeros", "new_empty", "new_full", "ones_like", "zeros_like", "empty_like", "full_like"}
SAME = {"clone"}  # the same numbers elsewhere: whoever held them holds these
SERVER, CLIENT, BOTH = -1, -2, -3  # who holds a model that no call of this round made
Sizes = dict[str, tuple[int, ...]]  # the shapes of one lane's parameters


class Call(NamedTuple):
    """Legs that a round asked for at once."""

    legs: int
    places: tuple[int, ...] | None  # in the round's order; None: clients of the algorithm's own choice
    source: int  # whose model they start from: the server's, a client's of the round before, an earlier call's
    ready: frozenset[int]  # calls whose models had to be at the server before
    beside: frozenset[int]  # calls whose server sides had to be trained before
    more: int  # numbers that go down with each model
    up: bool  # whether the trained models go to the server
    there: bool = False  # whether these clients have the model already: no hand-over


class Trace(NamedTuple):
    """One round."""

    calls: list[Call]
    fetched: bool = False  # whether the model that a client held when it began had to be brought to the server

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


class _Seen(Watched):
    """Follows tensors through operations, by the memory they lie in."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.origin: dict[int, _Origin] = {}
        self.read: set[int] = set()  # calls that something was computed from; CLIENT: the model of the round before
        self._alive: list[Tensor] = []  # so that no memory is used twice

    def put(self, x: Tensor, origin: _Origin) -> Tensor:
        self._alive.append(x)
        self.origin[_memory(x)] = origin
        return x

    def of(self, x: Tensor) -> _Origin:
        return self.origin.get(_memory(x), _Origin(frozenset(), None))

    def looked_at(self, origins: Iterable[_Origin]) -> None:
        """The server has seen these."""
        self.read |= {o.raw for o in origins if o.raw is not None and o.raw != SERVER}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Every operation passes here; a view lies in the memory of what it shows."""
        made = func(*args, **(kwargs or {}))
        name, given, results = func._schema.name.partition("::")[2], _tensors((args, kwargs)), _tensors(made)
        if name in BLIND:  # made in its image, not from it
            return made
        if name in SAME:
            self.put(results[0], self.of(given[0]))
            return made
        known = {_memory(x) for x in given}
        new = [x for x in results if _memory(x) not in known] + _written(func._schema, args, kwargs or {})
        origins = [self.of(x) for x in given]
        if new or not results:  # computed, or a number that is read
            self.looked_at(origins)
        for x in new:
            self.put(x, _Origin(frozenset[int]().union(*(o.calls for o in origins)), None))
        return made


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def _written(schema: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """What an operation writes over."""
    if not schema.is_mutable:
        return []
    named = {each.name: each.alias_info is not None and each.alias_info.is_write for each in schema.arguments}
    given = [*zip(named, args, strict=False), *kwargs.items()]
    return [x for name, value in given if named[name] for x in _tensors(value)]


def _memory(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


class Counting:
    """Sites that only count."""

    def __init__(self, now: Now, sizes: Sizes, clients_hold: Sequence[str], small: Sizes, seen: _Seen) -> None:
        self.now, self.sizes, self.own, self.small, self.seen = now, sizes, set(clients_hold), small, seen
        self.calls: list[Call] = []
        self.brought: set[int] = set()  # calls whose models were brought to the server; CLIENT: as above
        self.given: dict[tuple[int, ...] | None, set[int]] = {}  # memory that these places were given, or made

    def train(
        self,
        x: Params,
        clients: Cohort,
        *,
        pull: Tensor | None = None,  # noqa: ARG002
        anchor: Params | None = None,
        shift: Params | None = None,
        sent: Params | None = None,
        rate: Tensor | None = None,  # noqa: ARG002
        still: bool = False,
        stiff: Params | None = None,
    ) -> Reply:
        """Writes the call down, and answers with models that are its own."""
        mine = [self.seen.of(leaf) for name, leaf in x.items() if name in self.own]
        rest = [self.seen.of(leaf) for name, leaf in x.items() if name not in self.own]
        raws = {origin.raw for origin in mine}
        source = raws.pop() if len(raws) == 1 else None
        told = [given for given in (anchor, shift, sent, stiff) if given]
        needed = [self.seen.of(leaf) for given in told for leaf in given.values()]
        if source is None or source in self.brought:  # it comes from the server, as all else
            source, needed = None, [*mine, *needed]
        self.seen.looked_at(needed)
        ready = frozenset[int]().union(*(origin.calls for origin in needed))
        beside = frozenset[int]().union(*(origin.calls for origin in rest))
        has = self.given.setdefault(clients.places, set()) if clients.places else set[int]()
        old = has if still else set[int]()  # who stands still and looks has it from the visit before
        numbers = sum(self._numbers(given, old) for given in told)
        there = all(_memory(leaf) in old for leaf in x.values())
        number = len(self.calls)
        held = SERVER if source is None else source
        self.calls.append(Call(clients.index.numel(), clients.places, held, ready, beside, numbers, False, there))
        shape, kind = clients.index.shape, self.now.lr.dtype
        own = _Origin(frozenset([number]), number)
        made = {name: self.seen.put(_some((*shape, *self.small[name]), kind, 1 + number), own) for name in x}
        has.update(_memory(leaf) for given in (x, *told, made) for leaf in given.values())
        steps = torch.full(shape, self.now.local_steps or 1)
        square = {n: self.seen.put(leaf.square(), own) for n, leaf in made.items()} if still else None
        ones = torch.ones(shape, dtype=torch.int64)
        return Reply(made, lambda: Facts(ones, steps, steps.to(kind)), None, True, square)

    def pool(self, x: Params) -> Reply:
        """One leg, at the server."""
        return self.train(x, Cohort(torch.zeros(len(self.now.lr), dtype=torch.int64)))

    def home(self, x: Params) -> Params:
        """The model is at the server from here on."""
        origins = [self.seen.of(leaf) for name, leaf in x.items() if name in self.own]
        self.brought |= {origin.raw for origin in origins if origin.raw is not None}
        self.seen.looked_at(origins)
        return x

    def draw(self, shape: Sequence[int], purpose: str, *, normal: bool = False) -> Tensor:
        """Some numbers: which they are changes nothing of what is sent."""
        seed = torch.zeros(len(self.now.lr), dtype=torch.int64)
        return rng.named(seed, self.now.round, shape, purpose, self.now.lr.dtype, gaussian=normal)

    def sides(self, x: Params) -> tuple[Params, Params]:
        """By name."""
        mine = {name: leaf for name, leaf in x.items() if name in self.own}
        return mine, {name: leaf for name, leaf in x.items() if name not in self.own}

    def _numbers(self, given: Params, old: set[int]) -> int:
        """In one lane's tensors, but for old ones; those that stand for a parameter count as the parameter does."""
        total = 0
        for name, leaf in given.items():
            if _memory(leaf) in old:
                continue
            own = self._parameter(name)
            same = own in self.sizes and tuple(leaf.shape[-len(self.small[own]) :]) == self.small[own]
            total += _count(self.sizes[own]) if same else leaf[0].numel()
        return total

    def _parameter(self, name: str) -> str:
        """The parameter that a tensor is named after; a switch puts a word and a dot before it."""
        return next((n for n in (name, name.partition(".")[2]) if n in self.sizes), name)


def _count(shape: Sequence[int]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def _some(shape: Sequence[int], kind: torch.dtype, first: int) -> Tensor:
    """Numbers that differ, and are not 0: a round may read them, and divide by them."""
    return torch.arange(first, first + _count(shape), dtype=kind).view(*shape)


def count(
    algorithm: Algorithm, sizes: Sizes, clients_hold: Sequence[str], now: Now, begins: int | None = None
) -> tuple[Trace, int]:
    """(a round of this kind, who holds its model at the end: SERVER, CLIENT, or BOTH).

    begins: who holds its model at the beginning; None: after others like it, that is, where it ends itself.
    """
    one_number = {name: (1,) * len(shape) for name, shape in sizes.items()}
    try:
        return _settled(algorithm, sizes, clients_hold, now, one_number, begins)
    except Exception:  # it looks at shapes, or is wrong: then with the model's own, which are those to be told
        return _settled(algorithm, sizes, clients_hold, now, sizes, begins)


def _settled(
    algorithm: Algorithm, sizes: Sizes, own: Sequence[str], now: Now, small: Sizes, begins: int | None
) -> tuple[Trace, int]:
    if begins is None:
        begins = _once(algorithm, sizes, own, now, small, SERVER)[1]
    return _once(algorithm, sizes, own, now, small, begins)


def _once(
    algorithm: Algorithm, sizes: Sizes, own: Sequence[str], now: Now, small: Sizes, begins: int
) -> tuple[Trace, int]:
    seen = _Seen()
    model = {name: _some((1, *shape), now.lr.dtype, 1) for name, shape in small.items()}
    server = algorithm.server(model, now) if algorithm.server else {}
    for leaf in model.values():
        seen.put(leaf, _Origin(frozenset(), begins))
    server = {name: seen.put(leaf.clone(), _Origin(frozenset(), SERVER)) for name, leaf in server.items()}
    sites = Counting(now, sizes, own, small, seen)
    order = torch.arange(now.participants).unsqueeze(0)
    with seen:
        new = algorithm.round(State(model, server), Cohort.whole(order), sites)
    ends = [seen.of(leaf) for name, leaf in new.model.items() if name in sites.own]
    raws = {origin.raw for origin in ends}
    last = raws.pop() if len(raws) == 1 else None
    seen.looked_at([*(seen.of(leaf) for leaf in new.server.values()), *(ends if last is None else [])])
    handed = {call.source for call in sites.calls} | {last}
    calls = [call._replace(up=number in seen.read or number not in handed) for number, call in enumerate(sites.calls)]
    return Trace(calls, CLIENT in seen.read), _holder(last, seen.read, sites.brought)


def _holder(last: int | None, read: set[int], brought: set[int]) -> int:
    """Of the model at the end, which is the answer of this call; None: it was computed."""
    if last is None or last in brought:
        return SERVER
    there = BOTH if last in read else CLIENT
    return there if last >= 0 or last == CLIENT else last
