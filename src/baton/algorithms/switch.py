"""One method first, then another: CyclicFL (Zhang et al., 2023) is a chain, then any parallel method."""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.errors import BadInput
from baton.lanes import Params, where
from baton.names import Nested
from baton.seam import Cohort, Leg, Local, Now, Reply, Sites, State

PHASES = ("first", "then")
BEGUN = "begun"  # [L, 1] whether a round of the second method has counted, among what the server keeps
FIRST, THEN = Nested("sequential"), Nested("parallel")


def switch(
    *,
    first: Nested = FIRST,
    then: Nested = THEN,
    after: int | None = None,
    at: float | None = None,
) -> Algorithm:
    """`first` for so many rounds, `then` from there; CyclicFL (Zhang et al., 2023) is a chain first.

    at: the same as a share of the setting's rounds, a tenth if neither is given; it is filled in as `after`, which
    is then part of the setting. Options inside have + for a comma: then=fedavgm:beta=0.5+server_lr=2.
    """
    both = {"first": first, "then": then}
    assert isinstance(first, Algorithm)
    assert isinstance(then, Algorithm)
    if after is None or at is not None:
        raise BadInput("algorithm: switch needs after, its first method's rounds, as in switch:after=100")
    if after < 0:
        raise BadInput(f"algorithm: switch has after={after}; 0 rounds or more is right")
    if first.split != then.split:
        raise BadInput("algorithm: switch has one method that cuts the model; both alike, or none, is right")
    if not (first.sends and then.sends):
        raise BadInput("algorithm: switch has a baseline that sends nothing; methods that federate are right")
    return _switched({k: v for k, v in both.items() if isinstance(v, Algorithm)}, after)


def _switched(both: dict[str, Algorithm], after: int) -> Algorithm:
    def phase(number: int) -> str:
        return PHASES[number >= after]

    def kind(number: int) -> Hashable:
        """(which method, its kind of this round, whether it is its first)."""
        name = phase(number)
        return name, both[name].kind(number - (after if name == "then" else 0)), number == after

    def inside(now: Now) -> tuple[str, Now]:
        assert isinstance(now.kind, tuple)
        name, own, _ = now.kind
        shift = after if name == "then" else 0
        return name, now._replace(round=now.round - shift, kind=own)

    def own(state: State, name: str, now: Now, drawn: Tensor) -> State:
        """What one method finds: the second one begins with the first round of its own that counts.

        Its first round by number is another kind, since it alone is counted with what the server makes of the model.
        """
        method, kept = both[name], _part(state.server, name)
        if method.server is None or name == "first":
            return State(state.model, kept)
        begun = state.server[BEGUN].squeeze(1) > 0
        if begun.is_cuda or not bool(begun.all()):
            kept = where(begun, kept, method.server(state.model, now._replace(drawn=drawn)))
        return State(state.model, kept)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        name, now = inside(sites.now)
        found = own(state, name, now, order.index)
        new = both[name].round(found, order, _Phase(sites, name, now, local is not None))
        kept = state.server | {f"{name}.{n}": leaf for n, leaf in new.server.items()}
        if name == "then" and BEGUN in kept:
            kept[BEGUN] = torch.ones_like(kept[BEGUN])
        return State(new.model, kept)

    def server(x: Params, now: Now) -> Params:
        made = {name: method.server(x, now) for name, method in both.items() if method.server}
        kept = {f"{name}.{n}": leaf for name, part in made.items() for n, leaf in part.items()}
        if "then" in made:
            begun = float(isinstance(now.round, int) and now.round > after)  # only where a later round is counted
            kept[BEGUN] = torch.full((len(now.lr), 1), begun, dtype=now.lr.dtype, device=now.lr.device)
        return kept

    def order(state: State, drawn: Tensor, now: Now) -> Tensor:
        name, now = inside(now)
        choose = both[name].order
        return drawn if choose is None else choose(own(state, name, now, drawn), drawn, now)

    local = _locals({name: method.local for name, method in both.items() if method.local})
    chosen = any(method.order for method in both.values())
    elastic = any(method.elastic for method in both.values())
    looks = any(method.looks for method in both.values())
    split, once = both["first"].split, any(method.once for method in both.values())
    own_order = order if chosen else None
    return Algorithm(round, server, local, own_order, kind, split, elastic=elastic, looks=looks, once=once)


def _part(x: Params, name: str) -> Params:
    return {n.removeprefix(f"{name}."): leaf for n, leaf in x.items() if n.startswith(f"{name}.")}


class _Phase:
    """The sites as one of both methods sees them: what is sent says, without a number more, whose it is."""

    def __init__(self, sites: Sites, name: str, now: Now, marked: bool) -> None:
        self.now, self._sites, self._name, self._marked = now, sites, name, marked
        self.home, self.sides = sites.home, sites.sides

    def train(self, x: Params, clients: Cohort, *, sent: Params | None = None, **more: Any) -> Reply:
        """As Sites has it."""
        if not self._marked:
            return self._sites.train(x, clients, sent=sent, **more)
        told = {f"{self._name}.{n}": leaf for n, leaf in (sent or {}).items()}
        return self._sites.train(x, clients, sent={**told, self._name: self.now.lr[:, None][:, :0]}, **more)

    def pool(self, x: Params) -> Reply:
        """As Sites has it; no method that may be inside asks for it."""
        return self._sites.pool(x)

    def draw(self, shape: Sequence[int], purpose: str, *, normal: bool = False) -> Tensor:
        """As Sites has it."""
        return self._sites.draw(shape, purpose, normal=normal)


def _locals(parts: dict[str, Local]) -> Local | None:
    """What clients keep for each; a method that keeps nothing leaves the other's as it is."""
    if not parts:
        return None

    def init(x: Params) -> Params:
        return {f"{name}.{n}": leaf for name, part in parts.items() for n, leaf in part.init(x).items()}

    def begin(kept: Params, sent: Params) -> Params:
        name = _whose(sent)
        if name in parts:
            mine = {n: leaf.clone() for n, leaf in _part(kept, name).items()}  # end finds what was kept
            return parts[name].begin(mine, _part(sent, name))
        return {}

    def end(kept: Params, sent: Params, leg: Leg) -> Params:
        name = _whose(sent)
        if name not in parts:
            return kept
        new = parts[name].end(_part(kept, name), _part(sent, name), leg)
        return {**kept, **{f"{name}.{n}": leaf for n, leaf in new.items()}}

    return Local(init, begin, end)


def _whose(sent: Params) -> str:
    return next(name for name in PHASES if name in sent)
