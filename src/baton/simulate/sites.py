"""Sites in this process: the clients of one round, their legs trained together as lanes."""

from functools import partial

import torch
from torch import Tensor

from baton import clients as held
from baton import failures
from baton.clients import Batches
from baton.lanes import Lanes, Params
from baton.legs import Legs
from baton.legs.base import Step
from baton.seam import Cohort, Facts, Leg, Now, Reply
from baton.simulate.kept import Kept, over
from baton.simulate.program import Program


class Simulation:
    """The batched twin of a visit: every leg of a call is a lane."""

    def __init__(
        self,
        program: Program,
        now: Now,
        order: Tensor,
        drawn: list[Batches] | None = None,
        kept: Kept | None = None,
        legs: Legs | None = None,
    ) -> None:
        """drawn: the minibatches of the round's first visits, by place, where they are known beforehand."""
        self.program, self.now, self.order, self.drawn, self.kept = program, now, order, drawn, kept
        self.legs = legs or program.legs
        self.seen: list[Tensor] = []  # who was visited in this round so far: [L, C] each
        self.places: list[int] | None = []  # and their places in its order; None: not known
        self.aborted: Tensor | None = None  # [L] lanes whose round goes back to its beginning

    def train(
        self,
        x: Params,
        clients: Cohort,
        *,
        pull: Tensor | None = None,
        anchor: Params | None = None,
        shift: Params | None = None,
        sent: Params | None = None,
    ) -> Reply:
        """One leg at each of these clients, all at once."""
        program, index = self.program, _columns(clients.index)  # [L, C]
        who, came = self._try(index)
        batches = self._batches(clients, who, came)
        every = program.lanes if clients.index.dim() == 1 else program.lanes.repeat(index.shape[1])
        kept, shift = self._begin(who, sent, shift)
        given, fold = self._flat(x), partial(_unfold, shape=clients.index.shape)
        fixed = anchor and self._flat(anchor), shift and self._flat(shift)
        step = self._step(every, batches, index.shape[1], pull, *fixed)
        made = fold(self.legs.train(given, step, batches))
        facts = partial(self._facts, who, clients.index.shape)
        reply = Reply(made if came is None else self._returned(x, made, came), facts, _like(came, clients.index))
        if kept is not None:
            self._end(who, kept, sent, x, reply, shift)
        return reply

    def home(self, x: Params) -> Params:
        """Everything is here already."""
        return x

    def sides(self, x: Params) -> tuple[Params, Params]:
        """(the clients' side, the server's)."""
        return self.program.apart(x)

    # --- who trains

    def _try(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """(who trains in the end [L, C], which legs came back; None: all)."""
        failing, policy = self.program.failing, self.program.policy
        if not failing.share:
            return index, None
        seed = self.program.lanes.seed
        found = failures.walked(failing, policy, seed, self.now.round, index, self.order, self.now.clients)
        if policy.abort:
            gone = ~found.came.all(1)
            self.aborted = gone if self.aborted is None else self.aborted | gone
        return found.client, found.came

    def _batches(self, clients: Cohort, who: Tensor, came: Tensor | None) -> Batches:
        """Drawn beforehand, or now; a client that is visited again in a round gets other minibatches."""
        places, before = clients.places, self.places
        known = places is not None and before is not None and not self.program.repeats
        first = known and not set(places or ()).intersection(before or ())
        rerouted = came is not None and self.program.policy.elsewhere
        number = 0 if first and not rerouted else _again(self.seen, who)
        self.seen.append(who)
        self.places = [*(before or ()), *(places or ())] if known and not rerouted else None
        if self.drawn is None or places is None or not first or rerouted:
            return self.program.draw(self.now.round, who, number)
        legs = [self.drawn[place] for place in places]
        if clients.index.dim() == 1:
            return legs[0]
        return Batches(*(torch.stack(field, 1).flatten(0, 1) for field in zip(*legs, strict=True)))

    # --- the step

    def _step(
        self,
        lanes: Lanes,
        batches: Batches,
        each: int,
        pull: Tensor | None,
        anchor: Params | None,
        shift: Params | None,
    ) -> Step:
        program = self.program
        lr = self.now.lr.repeat_interleave(each) if each > 1 else self.now.lr
        if program.clients.smallest == 0:
            lr = torch.where(batches.weight[:, 0, 0] > 0, lr, 0.0)
        if pull is not None and each > 1:
            pull = pull.repeat_interleave(each)
        momentum = lanes.momentum if program.momentum else None
        return Step(lr, lanes.clip, lanes.weight_decay, momentum, pull, anchor, shift, program.passes > 0)

    def _flat(self, x: Params) -> Params:
        """One model a leg [L, C, ...] as lanes of their own; one a lane as it is."""
        ranks = self.program.ranks
        return {n: leaf.flatten(0, 1) if leaf.dim() > ranks[n] else leaf for n, leaf in x.items()}

    # --- what comes back

    def _facts(self, who: Tensor, shape: torch.Size) -> Facts:
        count = held.spans(self.program.clients, self.program.lanes, who)[1]
        steps = held.taken(count, self.program.setting, self.program.passes)[1]
        reach = self.program.reach(steps)
        return Facts(*(each.view(shape) for each in (count, steps, reach)))

    def _returned(self, x: Params, made: Params, came: Tensor) -> Params:
        """What was trained, or what was given where a leg did not come back."""
        ranks, found = self.program.ranks, {}
        for n, leaf in made.items():
            given = x[n] if x[n].dim() == leaf.dim() else x[n].unsqueeze(1)
            back = came.view(leaf.shape[: leaf.dim() - ranks[n] + 1])
            found[n] = torch.where(back.view(*back.shape, *[1] * (ranks[n] - 1)), leaf, given)
        return found

    # --- what clients keep

    def _begin(self, who: Tensor, sent: Params | None, shift: Params | None) -> tuple[Params | None, Params | None]:
        """(what these clients keep [L, C, ...], the leg's shift)."""
        local = self.program.algorithm.local
        if local is None or self.kept is None:
            return None, shift
        kept = self.kept.read(who)
        own = local.begin(kept, _beside(sent))
        if shift is not None:
            there = {n: leaf.unsqueeze(1) if leaf.dim() < own[n].dim() else leaf for n, leaf in shift.items()}
            own = {n: leaf + there[n] for n, leaf in own.items()}
        return kept, own

    def _end(
        self, who: Tensor, kept: Params, sent: Params | None, x: Params, reply: Reply, shift: Params | None
    ) -> None:
        local, ranks = self.program.algorithm.local, self.program.ranks
        assert local is not None
        assert shift is not None
        assert self.kept is not None

        def wide(model: Params) -> Params:
            return {n: leaf if leaf.dim() > ranks[n] else leaf.unsqueeze(1) for n, leaf in model.items()}

        reach = reply.reach.view(who.shape)
        lr = self.now.lr.unsqueeze(1).expand(who.shape)
        new = local.end(kept, _beside(sent), Leg(wide(x), wide(reply.x), shift, reach, lr))
        program = self.program
        if reply.came is not None or program.clients.smallest == 0:  # no step: nothing learnt
            took = reach > 0 if reply.came is None else (reach > 0) & reply.came.view(who.shape)
            new = {n: torch.where(over(took, leaf), leaf, kept[n]) for n, leaf in new.items()}
        self.kept.write(who, kept, new)


def _columns(index: Tensor) -> Tensor:
    return index if index.dim() == 2 else index.unsqueeze(1)


def _like(came: Tensor | None, index: Tensor) -> Tensor | None:
    return None if came is None else came.view(index.shape)


def _beside(sent: Params | None) -> Params:
    """What is sent to a lane's clients, to broadcast over them: [L, 1, ...]."""
    return {n: leaf.unsqueeze(1) for n, leaf in (sent or {}).items()}


def _unfold(x: Params, shape: torch.Size) -> Params:
    """Legs [N, ...] with the axes of the clients that were asked."""
    return x if len(shape) == 1 else {n: leaf.view(*shape, *leaf.shape[1:]) for n, leaf in x.items()}


def _again(seen: list[Tensor], index: Tensor) -> Tensor:
    """How often each client [L, C] was visited before, in earlier calls and to its left: [L, C]."""
    left = (index.unsqueeze(2) == index.unsqueeze(1)).tril(-1).sum(2)
    if not seen:
        return left
    every = torch.cat(seen, 1)
    return left + (index.unsqueeze(2) == every.unsqueeze(1)).sum(2)
