"""A user's own algorithm, held to what an algorithm is: what it gets wrong ends in one line that names its function.

Only theirs is wrapped, once, when it is built: a registered one is tested instead, and costs nothing here.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import Cohort, Leg, Local, Now, Reply, Sites, Split, State
from baton.usercode import call, written_in

Function = TypeVar("Function", bound=Callable[..., Any])


def held_to(made: object, name: str, make: Callable[..., Any]) -> Algorithm:
    """What a user's factory made, each of its functions checked whenever it is called."""

    def wrong(what: str, right: str) -> BadInput:
        return BadInput(f"algorithm: {name} ({written_in(make)}) made {what}; {right} is right")

    if not isinstance(made, Algorithm):
        raise wrong(f"a {type(made).__name__}", "an Algorithm")
    for field, right in (("local", Local), ("split", Split)):
        given = getattr(made, field)
        if given is not None and not isinstance(given, right):
            raise wrong(f"an Algorithm whose {field} is a {type(given).__name__}", f"a {right.__name__}, or None,")
    words = isinstance(made.sends, tuple) and all(isinstance(word, str) for word in made.sends)
    if not words and not (isinstance(made.sends, int) and made.sends >= 0):
        raise wrong(f"an Algorithm whose sends is {made.sends!r}", "True, False, a number of bytes or a tuple of words")
    asked = {"round": made.round, "kind": made.kind}
    asked |= {field: given for field in ("server", "order") if (given := getattr(made, field)) is not None}
    asked |= {f"local.{field}": given for field, given in (made.local._asdict() if made.local else {}).items()}
    for field, given in asked.items():
        if not callable(given):
            raise wrong(f"an Algorithm whose {field} is a {type(given).__name__}", "a function")
    return made._replace(
        round=_round(made.round, name, made.elastic),
        server=None if made.server is None else _server(made.server, name),
        local=None if made.local is None else _local(made.local, name),
        order=None if made.order is None else _told(made.order, name),
        kind=made.kind if made.kind is Algorithm._field_defaults["kind"] else _kind(made.kind, name),
    )


def _told(function: Function, name: str) -> Function:
    """The same; what it raises ends in one line."""
    return wraps(function)(partial(call, "algorithm", name, function))  # type: ignore[return-value]


def _wrong(name: str, function: Callable[..., Any], what: str, right: str) -> BadInput:
    return BadInput(f"algorithm: {name!r} ({written_in(function)}) returned {what}; {right} is right")


# --- a round


def _round(
    function: Callable[[State, Cohort, Sites], State], name: str, elastic: bool
) -> Callable[[State, Cohort, Sites], State]:
    @wraps(function)
    def round(state: State, order: Cohort, sites: Sites) -> State:
        before = State(*(dict(drawer) for drawer in state))
        versions = [leaf._version for drawer in before for leaf in drawer.values()]
        made = call("algorithm", name, function, state, order, CheckedSites(sites, before.model, elastic))
        new = _as_a_state(made, before, name, function)
        if [leaf._version for drawer in before for leaf in drawer.values()] != versions:
            raise _over(before, versions, name, function)
        return new

    return round


def _as_a_state(made: object, before: State, name: str, function: Callable[..., Any]) -> State:
    """What a round returned, where it is a state like the one it was given."""
    if not isinstance(made, State):
        raise _wrong(name, function, f"a {type(made).__name__}", "a State")
    for drawer, new, old in zip(State._fields, made, before, strict=True):
        if not isinstance(new, dict):
            raise _wrong(name, function, f"a State whose {drawer} is a {type(new).__name__}", "a dict of tensors")
        if new.keys() != old.keys():
            raise _wrong(name, function, f"a {drawer} {_other(new, old)}", f"a {drawer} with the leaves it was given")
        for leaf, given in old.items():
            if bad := _unlike(new[leaf], given):
                raise _wrong(name, function, f"a {drawer} with {leaf!r} {bad[0]}", bad[1])
    return made


def _over(before: State, versions: list[int], name: str, function: Callable[..., Any]) -> BadInput:
    every = [(drawer, n) for drawer, old in zip(State._fields, before, strict=True) for n in old]
    now = [leaf._version for drawer in before for leaf in drawer.values()]
    drawer, leaf = next(each for each, a, b in zip(every, versions, now, strict=True) if a != b)
    what = f"wrote over {leaf!r} of the {drawer} it was given"
    return BadInput(f"algorithm: {name!r} ({written_in(function)}) {what}; new tensors are right")


def _other(new: Mapping[str, Any], old: Mapping[str, Any]) -> str:
    lost, more = [n for n in old if n not in new], [n for n in new if n not in old]
    return f"without {lost[0]!r}" if lost else f"with {more[0]!r} too"


def _unlike(leaf: object, given: Tensor) -> tuple[str, str] | None:
    """(what it is, what is right), where a leaf is not like the one that was given."""
    if not isinstance(leaf, Tensor):
        return f"as a {type(leaf).__name__}", "a tensor"
    if leaf.shape != given.shape:
        return f"of shape {tuple(leaf.shape)}", f"{tuple(given.shape)}"
    if leaf.dtype != given.dtype:
        return f"in {leaf.dtype}", f"{given.dtype}"
    if leaf.device != given.device:
        return f"on {leaf.device}", f"{given.device}"
    return None


# --- what it asks of its sites


class CheckedSites:
    """Sites, as a user's round asks them: what they cannot do is refused where it is asked."""

    def __init__(self, sites: Sites, model: Params, elastic: bool = False) -> None:
        self.now, self._sites, self._model, self._elastic = sites.now, sites, model, elastic
        leaf = next(iter(model.values()))
        self._lanes, self._dtype = len(leaf), leaf.dtype

    def train(
        self,
        x: Params,
        clients: Cohort,
        *,
        pull: Tensor | None = None,
        anchor: Params | None = None,
        shift: Params | None = None,
        sent: Params | None = None,
        rate: Tensor | None = None,
        still: bool = False,
        stiff: Params | None = None,
    ) -> Reply:
        """As Sites has it."""
        legs = self._legs(clients)
        self._is_a_model("x", x, legs)
        for what, number in (("pull", pull), ("rate", rate)):
            if number is not None:
                self._is_a_number_a_lane(what, number)
        for what, given in (("anchor", anchor), ("shift", shift), ("stiff", stiff)):
            if given is not None:
                self._is_a_model(what, given, legs)
        if stiff is not None and not self._elastic:
            raise TypeError("sites.train: stiff is for algorithms that say so; Algorithm(round, elastic=True) is right")
        if sent is not None and (bad := _no_drawer(sent, self._lanes)):
            raise TypeError(f"sites.train: sent is {bad}")
        more = {"rate": rate, "still": still, "stiff": stiff}
        return self._sites.train(x, clients, pull=pull, anchor=anchor, shift=shift, sent=sent, **more)  # type: ignore[arg-type]

    def pool(self, x: Params) -> Reply:
        """As Sites has it."""
        self._is_a_model("x", x, 1)
        return self._sites.pool(x)

    def home(self, x: Params) -> Params:
        """As Sites has it."""
        return self._sites.home(x)

    def draw(self, shape: Sequence[int], purpose: str, *, normal: bool = False) -> Tensor:
        """As Sites has it."""
        sizes = tuple(shape) if isinstance(shape, tuple | list) else ()
        if not isinstance(shape, tuple | list) or not all(type(n) is int and n >= 0 for n in sizes):
            raise TypeError(
                f"sites.draw: shape: got {shape!r}; expected whole numbers without the lanes, such as (3, 4)"
            )
        if not isinstance(purpose, str):
            raise TypeError(f"sites.draw: purpose: got {purpose!r}; expected a word, such as 'mask'")
        return self._sites.draw(sizes, purpose, normal=normal)

    def sides(self, x: Params) -> tuple[Params, Params]:
        """As Sites has it."""
        return self._sites.sides(x)

    def _legs(self, clients: object) -> int:
        """How many legs there are of each lane; a Cohort of the round's own order is known to be right."""
        if not isinstance(clients, Cohort):
            raise TypeError(
                f"sites.train: clients is a {type(clients).__name__}; a Cohort, such as the order, is right"
            )
        index, lanes = clients.index, self._lanes
        if not isinstance(index, Tensor) or index.dtype != torch.int64:
            what = index.dtype if isinstance(index, Tensor) else f"a {type(index).__name__}"
            raise TypeError(f"sites.train: the clients are {what}; a tensor of int64 is right")
        if index.dim() not in (1, 2) or len(index) != lanes or not index.numel():
            shape = tuple(index.shape)
            raise ValueError(f"sites.train: the clients have the shape {shape}; ({lanes},) or ({lanes}, C) is right")
        legs = 1 if index.dim() == 1 else index.shape[1]
        if clients.places is not None and len(clients.places) != legs:
            raise ValueError(f"sites.train: {legs} clients at {len(clients.places)} places; a place each is right")
        if clients.places is None and not index.is_cuda:  # on a GPU nobody waits for the answer
            low, high = (int(end) for end in index.aminmax())
            if low < 0 or high >= self.now.clients:
                who = low if low < 0 else high
                raise IndexError(f"sites.train: there is no client {who}; 0 to {self.now.clients - 1} is right")
        return legs

    def _is_a_model(self, what: str, x: object, legs: int) -> None:
        """One a lane [L, ...], or one a leg [L, C, ...]."""
        if not isinstance(x, dict):
            right = "a dict of tensors, such as state.model, is right"
            raise TypeError(f"sites.train: {what} is a {type(x).__name__}; {right}")
        if x.keys() != self._model.keys():
            raise ValueError(f"sites.train: {what} is a model {_other(x, self._model)}; the model's leaves are right")
        for name, given in self._model.items():
            leaf = x[name]
            if not isinstance(leaf, Tensor):
                raise TypeError(f"sites.train: {what} has {name!r} as a {type(leaf).__name__}; a tensor is right")
            if leaf.shape != given.shape and tuple(leaf.shape) != (self._lanes, legs, *given.shape[1:]):
                both = f"{tuple(given.shape)}, or {(self._lanes, legs, *given.shape[1:])},"
                raise ValueError(f"sites.train: {what} has {name!r} of shape {tuple(leaf.shape)}; {both} is right")
            if leaf.dtype != given.dtype:
                raise TypeError(f"sites.train: {what} has {name!r} in {leaf.dtype}; {given.dtype} is right")

    def _is_a_number_a_lane(self, what: str, given: object) -> None:
        if not isinstance(given, Tensor):
            right = f"a tensor of one number a lane, ({self._lanes},), is right"
            raise TypeError(f"sites.train: {what} is a {type(given).__name__}; {right}")
        if given.shape != (self._lanes,) or given.dtype != self._dtype:
            what = f"{what} has the shape {tuple(given.shape)} and is in {given.dtype}"
            raise ValueError(f"sites.train: {what}; ({self._lanes},) and {self._dtype} is right")


# --- what is kept


def _server(function: Callable[[Params, Now], Params], name: str) -> Callable[[Params, Now], Params]:
    @wraps(function)
    def server(x: Params, now: Now) -> Params:
        return _drawer(call("algorithm", name, function, x, now), x, name, function)

    return server


def _local(own: Local, name: str) -> Local:
    @wraps(own.init)
    def init(x: Params) -> Params:
        return _drawer(call("algorithm", name, own.init, x), x, name, own.init)

    @wraps(own.end)
    def end(kept: Params, sent: Params, leg: Leg) -> Params:
        before = dict(kept)
        new = call("algorithm", name, own.end, kept, sent, leg)
        if not isinstance(new, dict):
            raise _wrong(name, own.end, f"a {type(new).__name__}", "a dict of tensors")
        if new.keys() != before.keys():
            raise _wrong(name, own.end, f"what a client keeps {_other(new, before)}", "what it kept before")
        for leaf, given in before.items():
            if bad := _unlike(new[leaf], given):
                raise _wrong(name, own.end, f"{leaf!r} {bad[0]}", bad[1])
        return new

    return Local(init, _told(own.begin, name), end)


def _drawer(made: object, x: Params, name: str, function: Callable[..., Any]) -> Params:
    """What server or clients keep at first, where it may be kept beside the model x."""
    leaf = next(iter(x.values()))
    if bad := _no_drawer(made, len(leaf)):
        raise BadInput(f"algorithm: {name!r} ({written_in(function)}) returned {bad}")
    assert isinstance(made, dict)
    for key, kept in made.items():
        if not kept.is_floating_point():
            raise _wrong(name, function, f"{key!r} in {kept.dtype}", f"a dtype of floats, such as {leaf.dtype},")
        if kept.device != leaf.device:
            raise _wrong(name, function, f"{key!r} on {kept.device}", f"{leaf.device}")
    return made


def _no_drawer(made: object, lanes: int) -> str:
    """Why something is no dict of tensors [L, ...]; nothing where it is."""
    if not isinstance(made, dict):
        return f"a {type(made).__name__}; a dict of tensors is right"
    for key, leaf in made.items():
        if not isinstance(key, str):
            return f"a dict with {key!r} as a name; a word is right"
        if not isinstance(leaf, Tensor):
            return f"{key!r} as a {type(leaf).__name__}; a tensor is right"
        if leaf.shape[:1] != (lanes,):
            return f"{key!r} of shape {tuple(leaf.shape)}; one row a lane, ({lanes}, ...), is right"
    return ""


def as_a_shift(
    made: object,
    begin: Callable[..., Any],
    name: str,
    sizes: dict[str, tuple[int, ...]],
    dtype: torch.dtype,
    shape: torch.Size,
    *given: Params,
) -> Params:
    """What a user's Local.begin made for legs [L, C] of models of these sizes; a copy of what is not its own.

    A leg may write over its shift; what the function was given belongs to its client, or to the server.
    """
    if not isinstance(made, dict):
        raise _wrong(name, begin, f"a {type(made).__name__}", "a dict of tensors, the shift of each leaf,")
    if made.keys() != sizes.keys():
        raise _wrong(name, begin, f"a shift {_other(made, sizes)}", "a shift of each of the model's leaves")
    theirs, new = {_memory(leaf) for drawer in given for leaf in drawer.values()}, Params()
    lanes, legs = shape
    for leaf, size in sizes.items():
        mine = made[leaf]
        if not isinstance(mine, Tensor):
            raise _wrong(name, begin, f"{leaf!r} as a {type(mine).__name__}", "a tensor")
        if tuple(mine.shape) not in ((lanes, legs, *size), (lanes, 1, *size), (lanes, *size)):
            raise _wrong(name, begin, f"{leaf!r} of shape {tuple(mine.shape)}", f"{(lanes, legs, *size)}")
        if mine.dtype != dtype:
            raise _wrong(name, begin, f"{leaf!r} in {mine.dtype}", f"{dtype}")
        new[leaf] = mine.clone() if _memory(mine) in theirs else mine
    return new


def _memory(leaf: Tensor) -> int:
    return int(leaf.untyped_storage()._cdata)


# --- what sets rounds apart


def _kind(function: Callable[[int], Hashable], name: str) -> Callable[[int], Hashable]:
    @wraps(function)
    def kind(round: int) -> Hashable:
        made: Hashable = call("algorithm", name, function, round)
        try:
            hash(made)
        except TypeError:
            right = "a number, a word, None, or a tuple of them,"
            raise _wrong(name, function, f"a {type(made).__name__}", right) from None
        return made

    return kind
