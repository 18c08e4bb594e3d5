"""Algorithms of a user's own, as `own_rounds:...`: none of them says a word about its traffic."""

from collections.abc import Iterable

import torch
from torch import Tensor

from baton.algorithms import Algorithm, Cohort, Local, Sites, State
from baton.lanes import Params


def mean(models: Iterable[Params]) -> Params:
    every = list(models)
    return {name: sum((x[name] for x in every[1:]), every[0][name]) / len(every) for name in every[0]}


def over_legs(x: Params) -> Params:
    return {name: leaf.mean(1) for name, leaf in x.items()}


def chain(x: Params, clients: Iterable[Cohort], sites: Sites) -> Params:
    for client in clients:
        x = sites.train(x, client).x
    return x


def seq(*, groups: int) -> Algorithm:
    """FedSeq, group after group: a chain in each, then the ends averaged."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        length = len(order) // groups
        return State(mean(chain(state.model, order[g * length : (g + 1) * length], sites) for g in range(groups)))

    return Algorithm(round)


def twice(*, handed: bool = False) -> Algorithm:
    """Everyone is visited twice: averaged after each time, or handed from client to client all along."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        if handed:
            return State(chain(state.model, [*order, *order], sites))
        x = over_legs(sites.train(state.model, order).x)
        return State(over_legs(sites.train(x, order).x))

    return Algorithm(round)


def swa(*, to_go_on: str = "mean") -> Algorithm:
    """A chain whose models are averaged along the way. The next round begins from the mean, or goes on in the chain."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, hops = state.model, []
        for client in order:
            x = sites.train(x, client).x
            hops.append(x)
        return State(mean(hops)) if to_go_on == "mean" else State(x, mean(hops))

    return Algorithm(round, server=None if to_go_on == "mean" else lambda x, _: dict(x))


def turns(*, pause: bool = False) -> Algorithm:
    """A chain in even rounds. In odd ones an average, or nothing but a step of the server's, away from zero."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        if sites.now.kind == 0:
            return State(chain(state.model, order, sites))
        if pause:
            return State({name: 1.01 * leaf for name, leaf in state.model.items()})
        return State(over_legs(sites.train(state.model, order).x))

    return Algorithm(round, kind=lambda number: number % 2)


def waits(*, every: int = 2) -> Algorithm:
    """Hands over only every so many rounds; in the others everything stays where it is."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        return State(chain(state.model, order, sites)) if sites.now.kind else state

    return Algorithm(round, kind=lambda number: number % every == 0)


def home_first() -> Algorithm:
    """A chain by way of the server, which asks for the model when it needs it: also the last of the round before."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = state.model
        for client in order:
            x = sites.train(sites.home(x), client).x
        return State(x)

    return Algorithm(round)


def remembers() -> Algorithm:
    """A chain; the server keeps the model as it was handed on last, unchanged."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = chain(state.model, order, sites)
        return State(x, dict(x))

    return Algorithm(round, server=lambda x, _: dict(x))


def looks_back() -> Algorithm:
    """A chain; the server computes from where the round began, not from what it came to."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        kept = {name: leaf + state.model[name] for name, leaf in state.server.items()}
        return State(chain(state.model, order, sites), kept)

    return Algorithm(round, server=lambda x, _: {name: torch.zeros_like(leaf) for name, leaf in x.items()})


def anchored() -> Algorithm:
    """A chain whose clients are pulled to where the round began."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, pull = state.model, torch.full_like(sites.now.lr, 0.1)
        for client in order:
            x = sites.train(x, client, pull=pull, anchor=state.model).x
        return State(x)

    return Algorithm(round)


def halves() -> Algorithm:
    """Weights are averaged; biases stay with the last client's."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        replies = [sites.train(state.model, client).x for client in order]
        averaged = mean(replies)
        return State({n: leaf if "weight" in n else replies[-1][n] for n, leaf in averaged.items()})

    return Algorithm(round)


def copies() -> Algorithm:
    """Sequential by someone who does not trust what he is given."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = {name: leaf.clone() for name, leaf in state.model.items()}
        for client in order:
            x = {name: leaf.clone() for name, leaf in sites.train(x, client).x.items()}
        return State(x)

    return Algorithm(round)


def running() -> Algorithm:
    """Parallel; the mean is kept in place, and written over with `out=`."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = {name: torch.zeros_like(leaf) for name, leaf in state.model.items()}
        for client in order:
            made = sites.train(state.model, client).x
            for name, leaf in x.items():
                torch.add(made[name], leaf, out=leaf)
        return State({name: leaf / len(order) for name, leaf in x.items()})

    return Algorithm(round)


def pictures() -> Algorithm:
    """Parallel; looks at the rows of the first layer as 8 x 8 pictures, which are there at their real size only."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = over_legs(sites.train(state.model, order).x)
        first = next(iter(x))
        shown = x[first].view(len(x[first]), -1, 8, 8)
        return State(x | {first: shown.flatten(2)})

    return Algorithm(round)


def reads(*, most: float = 0.5) -> Algorithm:
    """Parallel; the server's step is at most so long, by numbers that are read."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        made = over_legs(sites.train(state.model, order).x)
        moved = {name: leaf - state.model[name] for name, leaf in made.items()}
        length = torch.cat([leaf.flatten(1) for leaf in moved.values()], 1).norm(dim=1)
        share = torch.tensor([min(1.0, most / each.item()) for each in length], dtype=length.dtype)
        return State({n: state.model[n] + leaf * _over(share, leaf) for n, leaf in moved.items()})

    return Algorithm(round)


def _over(share: Tensor, leaf: Tensor) -> Tensor:
    return share.view(-1, *[1] * (leaf.dim() - 1))


def peeks() -> Algorithm:
    """A chain that ends when a number of what came back is not finite: the server must see each model."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = state.model
        for client in order:
            x = sites.train(x, client).x
            if not abs(next(iter(x.values())).flatten()[0].item()) < float("inf"):
                break
        return State(x)

    return Algorithm(round)


def told() -> Algorithm:
    """Parallel; every client is told one number, and a direction."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        shift = {name: torch.full_like(leaf, 1e-3) for name, leaf in state.model.items()}
        reply = sites.train(state.model, order, shift=shift, sent={"one": torch.ones_like(sites.now.lr).unsqueeze(1)})
        return State(over_legs(reply.x))

    return Algorithm(round, local=Local(_nothing, _stays, _as_it_was))


def _nothing(x: Params) -> Params:
    return {name: torch.zeros_like(leaf) for name, leaf in x.items()}


def _stays(kept: Params, sent: Params) -> Params:
    assert sent["one"].shape[1:] == (1, 1)
    return _nothing(kept)


def _as_it_was(kept: Params, sent: Params, leg: object) -> Params:  # noqa: ARG001
    return kept


def by_halves() -> Algorithm:
    """The first half of the clients from the model, the second from the first half's mean."""

    def round(state: State, order: Cohort, sites: Sites) -> State:
        half = len(order) // 2
        x = over_legs(sites.train(state.model, order[:half]).x)
        return State(over_legs(sites.train(x, order[half:]).x))

    return Algorithm(round)
