"""Who is handed what in real rounds, told by the numbers alone: nothing here looks at how they were computed.

A model that equals what a client made is handed on by that client; any other comes from the server. What the server
knows of a client's model shows when the round is gone through again with another one in its place, all else that
clients say being the same: where anything but that model changes, the server must have had it.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from baton.algorithms import Cohort, Reply, State
from baton.lanes import Params
from baton.legs.split import SplitLegs
from baton.simulate.engine import Program, first
from baton.simulate.kept import Kept, laid_out
from baton.simulate.simulation import Simulation

Model = dict[str, Tensor]  # what a client holds of one model, without lane axis


class Bytes(NamedTuple):
    """As the ledger has them."""

    bytes_up: int = 0
    bytes_down: int = 0
    bytes_peer: int = 0


class Asked(NamedTuple):
    """One call of a round, as an algorithm of one lane sees it."""

    legs: list[Model]  # what each leg starts from
    more: Params  # what goes with it
    made: list[Model]
    who: list[int]
    still: bool  # a second look at what the client has


class Heard:
    """Sites that pass everything on and write it down."""

    def __init__(self, sites: Any, program: Program) -> None:
        self.sites, self.program, self.now = sites, program, sites.now
        self.asked: list[Asked] = []
        self.replies: list[Reply] = []
        self.brought: list[Model] = []

    def train(self, x: Params, clients: Cohort, **more: Any) -> Reply:
        reply: Reply = self.sites.train(x, clients, **more)
        count = clients.index.numel()
        with_it = {
            f"{word}/{n}": leaf.clone()
            for word in ("anchor", "shift", "sent", "stiff")
            for n, leaf in (more.get(word) or {}).items()
        }
        who, still = clients.index.flatten().tolist(), bool(more.get("still"))
        self.asked.append(Asked(self.apart(x, count), with_it, self.apart(reply.x, count), who, still))
        self.replies.append(reply)
        return reply

    def home(self, x: Params) -> Params:
        self.brought += self.apart(x, 1)
        return self.sites.home(x)  # type: ignore[no-any-return]

    def draw(self, *given: Any, **more: Any) -> Tensor:
        return self.sites.draw(*given, **more)  # type: ignore[no-any-return]

    def sides(self, x: Params) -> tuple[Params, Params]:
        return self.program.apart(x)

    def apart(self, x: Params, count: int) -> list[Model]:
        """Leg by leg, the clients' side."""
        mine, ranks = self.program.apart(x)[0], self.program.ranks
        wide = {
            n: leaf[0] if leaf.dim() > ranks[n] else leaf.expand(count, *leaf.shape[1:]) for n, leaf in mine.items()
        }
        return [{n: leaf[i].clone() for n, leaf in wide.items()} for i in range(count)]


class Said:
    """Sites that say what was said before, but for one call."""

    def __init__(self, heard: Heard, other: int | None, by: float) -> None:
        self.heard, self.other, self.by, self.now, self.asked = heard, other, by, heard.now, 0

    def train(self, x: Params, clients: Cohort, **more: Any) -> Reply:  # noqa: ARG002
        told = self.heard.replies[self.asked]
        self.asked += 1
        if self.asked - 1 != self.other:
            return told
        square = told.square and changed(told.square, self.by)
        return Reply(changed(told.x, self.by), lambda: told.facts, told.came, square=square)

    def home(self, x: Params) -> Params:
        return x

    def draw(self, *given: Any, **more: Any) -> Tensor:
        return self.heard.draw(*given, **more)

    def sides(self, x: Params) -> tuple[Params, Params]:
        return self.heard.program.apart(x)


def changed(x: Params, by: float = 0.1) -> Params:
    return {n: leaf + by * torch.arange(1, 1 + leaf.numel()).view(leaf.shape).to(leaf) for n, leaf in x.items()}


def same(a: Model, b: Model) -> bool:
    return a.keys() == b.keys() and all(torch.equal(leaf, b[name]) for name, leaf in a.items())


def among(x: Model, models: list[Model]) -> bool:
    return any(same(x, each) for each in models)


def hear(program: Program, rounds: int) -> list[Bytes]:
    """What crosses in the first rounds of a program of one lane, with full batches and clipped gradients only."""
    at = first(program)
    state, kept, found = at.state, Kept(laid_out(at.clients, None)), []
    theirs: list[Model] = []  # models that clients hold from the round before, and the server does not
    both: list[Model] = []  # and those that it holds too
    for number in range(rounds):
        now = program.now(number, program.rate(number), program.algorithm.kind(number))
        order, steps = program.order(number), _listen(program)
        heard = Heard(Simulation(program, now, order, kept=kept), program)
        new: State = program.algorithm.round(state, Cohort.whole(order), heard)
        kept.settle(None)
        up = [call for call in range(len(heard.asked)) if _known(heard, call, state, new, order)]
        fetched = among(heard.apart(state.model, 1)[0], theirs) and _known(heard, None, state, new, order)
        begun = heard.apart(state.model, 1)[0]  # any other model that the server kept comes from the server
        found.append(_sum(heard, up, fetched, [x for x in [*theirs, *both] if same(x, begun)], steps))
        if heard.asked or fetched:
            made = [(model, call in up) for call, each in enumerate(heard.asked) for model in each.made]
            old = [(model, True) for model in both] + [(model, fetched) for model in theirs]
            every = [(model, there) for model, there in [*made, *old] if not among(model, heard.brought)]
            theirs, both = ([model for model, there in every if there is it] for it in (False, True))
        state = new
    return found


def _sum(heard: Heard, up: list[int], fetched: bool, before: list[Model], steps: dict[str, int]) -> Bytes:
    item, clients, total = heard.program.net.dtype.itemsize, list(before), Bytes(steps["up"], steps["down"], 0)
    for number, call in enumerate(heard.asked):
        for client, leg in zip(call.who, call.legs, strict=True):
            size = item * sum(leaf.numel() for leaf in leg.values())
            hand = among(leg, clients) and not among(leg, heard.brought)
            has, told = _has(heard.asked[:number], client) if call.still else ([], [])
            new = [
                leaf for n, leaf in call.more.items() if not any(torch.equal(leaf, x.get(n, leaf[:0])) for x in told)
            ]
            sent = size * (not among(leg, has))
            total = total._replace(
                bytes_up=total.bytes_up + size * (number in up),
                bytes_down=total.bytes_down + sent * (not hand) + item * sum(leaf[0].numel() for leaf in new),
                bytes_peer=total.bytes_peer + sent * hand,
            )
        clients += call.made
    whole = item * sum(leaf[0].numel() for leaf in heard.program.apart(heard.program.net.init([0]))[0].values())
    return total._replace(bytes_up=total.bytes_up + whole * fetched)


def _has(calls: list[Asked], client: int) -> tuple[list[Model], list[Params]]:
    """The models that a client was given, or made, in these calls; and what went with them."""
    mine = [(call, i) for call in calls for i, who in enumerate(call.who) if who == client]
    return [model for call, i in mine for model in (call.legs[i], call.made[i])], [call.more for call, _ in mine]


def _known(heard: Heard, call: int | None, state: State, new: State, order: Tensor) -> bool:
    """Whether the server had what came of a call; None: the model that the round began with.

    What is only decided by a model may stay as it was, so that it is changed both ways.
    """
    return any(_told(heard, call, state, new, order, by) for by in (0.1, -0.1))


def _told(heard: Heard, call: int | None, state: State, new: State, order: Tensor, by: float) -> bool:
    if call is not None and any(among(model, heard.brought) for model in heard.asked[call].made):
        return True
    begin = state._replace(model=changed(state.model, by)) if call is None else state
    again = Heard(Said(heard, call, by), heard.program)
    end: State = heard.program.algorithm.round(begin, Cohort.whole(order), again)
    if call is None:
        if any(among(model, heard.brought) for model in heard.apart(state.model, 1)):
            return True
        others = heard.apart(begin.model, 1)
    else:
        others = again.asked[call].made
    for one, two in zip(heard.asked, again.asked, strict=True):
        if not same(one.more, two.more) or any(
            not same(a, b) and not among(b, others) for a, b in zip(one.legs, two.legs, strict=True)
        ):
            return True
    one, two = (heard.apart(each.model, 1)[0] for each in (new, end))
    return not same(new.server, end.server) or (not same(one, two) and not among(two, others))


def _listen(program: Program) -> dict[str, int]:
    """What crosses in the steps from now on."""
    total = {"up": 0, "down": 0}
    if isinstance(program.legs, SplitLegs):

        def listen(way: str, what: str, x: Tensor) -> None:  # noqa: ARG001
            total[way] += x.numel() * x.element_size()

        program.legs.wire.listen = listen
    return total
