"""Sites in this process: the clients of one round, their legs trained together as lanes."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from baton import clients as held
from baton import failures, rng
from baton.algorithms.checks import as_a_shift
from baton.clients import Batches
from baton.errors import BadInput
from baton.lanes import Lanes, Params, per_leg, zeros
from baton.legs import Legs
from baton.legs.base import Step, Still, directed, inverse_of, shift_of
from baton.legs.private import TOLD, Private
from baton.privacy import Protection, keyed
from baton.seam import Cohort, Facts, Leg, Local, Now, Reply
from baton.simulate.kept import Kept
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
        rate: Tensor | None = None,
        still: bool = False,
        stiff: Params | None = None,
    ) -> Reply:
        """One leg at each of these clients, all at once."""
        program, index = self.program, _columns(clients.index)  # [L, C]
        who, came = self._try(index, clients.places)
        number = self._visit(clients, who, came)
        batches = self._batches(clients, who, number)
        shape, facts = clients.index.shape, partial(self._facts, who, still)
        lr = self.now.lr if rate is None else self.now.lr * rate
        kept = self._keep(who, number, sent)
        if kept is not None:
            shift = _sum(kept.shift, shift) if kept.shift and shift else kept.shift or shift
        every = program.lanes if clients.index.dim() == 1 else program.lanes.repeat(index.shape[1])
        fixed = (given and self._flat(given) for given in (anchor, shift, stiff))
        step, square = self._step(every, batches, index.shape[1], lr, pull, *fixed), None
        way = self._private(Still(self.legs) if still else self.legs, who, number)
        if kept is None:
            made = way.train(self._flat(x), step, batches)
        else:
            reach, lr = self._reach(who, still=still), lr.unsqueeze(1)
            kept.reach, kept.lr, inverse = reach, lr, 1 / (reach * lr) if program.moving else inverse_of(reach, lr)
            made, kept.direction = directed(way, self._flat(x), step, batches, inverse.flatten())
        trained = _unfold(made, shape)
        if isinstance(way, Still):
            square = _unfold(way.square, shape)
        if came is not None:
            trained = self._returned(x, trained, came)
            square = square and self._returned(zeros(square), square, came)
        even = came is None and program.even
        whose = None if came is None else who.view(shape)
        reply = Reply(trained, partial(_shaped, facts, shape), _like(came, clients.index), even, square, whose)
        if kept is not None:
            self._learn(who, kept, x, reply)
        return reply

    def pool(self, x: Params) -> Reply:
        """One leg a lane on everybody's samples."""
        program = self.program
        batches = program.draw_pool(self.now.round)
        made = self.legs.train(x, self._step(program.lanes, batches, 1, self.now.lr), batches)
        return Reply(made, self._pooled, None, program.even)

    def home(self, x: Params) -> Params:
        """Everything is here already."""
        return x

    def draw(self, shape: Sequence[int], purpose: str, *, normal: bool = False) -> Tensor:
        """Keyed by each lane's own seed."""
        seed = self.program.lanes.seed
        return rng.named(seed, self.now.round, shape, purpose, self.now.lr.dtype, gaussian=normal)

    def sides(self, x: Params) -> tuple[Params, Params]:
        """(the clients' side, the server's)."""
        return self.program.apart(x)

    # --- who trains

    def _try(self, index: Tensor, places: tuple[int, ...] | None) -> tuple[Tensor, Tensor | None]:
        """(who trains in the end [L, C], which legs came back; None: all)."""
        failing, policy = self.program.failing, self.program.policy
        if not failing.share:
            return index, None
        seed = self.program.lanes.seed
        found = failures.walked(failing, policy, seed, self.now.round, index, self.order, self.now.clients, places)
        if policy.abort:
            gone = ~found.came.all(1)
            self.aborted = gone if self.aborted is None else self.aborted | gone
        return found.client, found.came

    def _visit(self, clients: Cohort, who: Tensor, came: Tensor | None) -> int | Tensor:
        """How often these clients were visited in this round before: 0, or [L, C]."""
        places, before = clients.places, self.places
        elsewhere = came is not None and self.program.policy.elsewhere  # then nobody knows beforehand who it is
        known = places is not None and before is not None and not self.program.repeats and not elsewhere
        first = known and not set(places or ()).intersection(before or ())
        number = 0 if first else _again(self.seen, who)
        self.seen.append(who)
        self.places = [*(before or ()), *(places or ())] if known else None
        return number

    def _batches(self, clients: Cohort, who: Tensor, number: int | Tensor) -> Batches:
        """Drawn beforehand, or now; a client that is visited again in a round gets other minibatches."""
        if self.drawn is None or clients.places is None or isinstance(number, Tensor):
            return self._trimmed(self.program.draw(self.now.round, who, number), who)
        legs = [self.drawn[place] for place in clients.places]
        if clients.index.dim() == 1:
            return self._trimmed(legs[0], who)
        return self._trimmed(Batches(*(torch.stack(field, 1).flatten(0, 1) for field in zip(*legs, strict=True))), who)

    def _trimmed(self, batches: Batches, who: Tensor) -> Batches:
        """Without the steps that none of these clients takes, where there may be some; a GPU is not asked."""
        if not self.program.passes or who.is_cuda:
            return batches
        longest = max(1, int(self._facts(who).steps.max()))
        return batches if longest == batches.key.shape[1] else Batches(*(field[:, :longest] for field in batches))

    # --- the step

    def _step(
        self,
        lanes: Lanes,
        batches: Batches,
        each: int,
        lr: Tensor,
        pull: Tensor | None = None,
        anchor: Params | None = None,
        shift: Params | None = None,
        stiff: Params | None = None,
    ) -> Step:
        program = self.program
        lr = lr.repeat_interleave(each) if each > 1 else lr
        if program.clients.smallest == 0:
            lr = torch.where(batches.weight[:, 0, 0] > 0, lr, 0.0)
        if pull is not None and each > 1:
            pull = pull.repeat_interleave(each)
        momentum = lanes.momentum if program.momentum else None
        return Step(lr, lanes.clip, lanes.weight_decay, momentum, pull, anchor, shift, program.passes > 0, stiff)

    def _private(self, legs: Legs, who: Tensor, number: int | Tensor) -> Legs:
        """These legs, told as the run's protection asks."""
        dp, each = self.program.dp, who.shape[1]
        if dp is None:
            return legs
        if isinstance(legs, Still):
            raise BadInput(TOLD)
        seed = self.program.lanes.seed.repeat_interleave(each)
        again = number.flatten() if isinstance(number, Tensor) else number
        key = held.visit(seed, self.now.round, who.flatten(), again)
        return Private(legs, Protection(*(field.repeat_interleave(each) for field in dp)), keyed(key))

    def _flat(self, x: Params) -> Params:
        """One model a leg [L, C, ...] as lanes of their own; one a lane as it is."""
        ranks = self.program.ranks
        return {n: leaf.flatten(0, 1) if leaf.dim() > ranks[n] else leaf for n, leaf in x.items()}

    # --- what comes back

    def _facts(self, who: Tensor, still: bool = False) -> Facts:
        """[L, C]."""
        count = held.spans(self.program.clients, self.program.lanes, who)[1]
        steps = held.taken(count, self.program.setting, self.program.passes)[1]
        return Facts(count, steps, self._reach(who, steps, still))

    def _pooled(self) -> Facts:
        """[L]."""
        table, setting = self.program.pool
        count = held.spans(table, self.program.lanes, torch.zeros_like(self.program.lanes.seed))[1]
        steps = held.taken(count, setting, setting.epochs)[1]
        return Facts(count, steps, self.program.reach(steps))

    def _reach(self, who: Tensor, steps: Tensor | None = None, still: bool = False) -> Tensor:
        """[L, C]: known without a look at the clients where all take K steps."""
        program = self.program
        if program.even:
            full = program.full_reach
            return (torch.full_like(full, program.setting.local_steps) if still else full).expand(who.shape)
        steps = self._facts(who).steps if steps is None else steps
        return steps.to(program.lanes.lr.dtype) if still else program.reach(steps)

    def _returned(self, x: Params, made: Params, came: Tensor) -> Params:
        """What was trained, or what was given where a leg did not come back."""
        ranks, found = self.program.ranks, {}
        for n, leaf in made.items():
            given = x[n] if x[n].dim() == leaf.dim() else x[n].unsqueeze(1)
            back = came.view(leaf.shape[: leaf.dim() - ranks[n] + 1])
            found[n] = torch.where(back.view(*back.shape, *[1] * (ranks[n] - 1)), leaf, given)
        return found

    # --- what clients keep

    def _keep(self, who: Tensor, number: int | Tensor, sent: Params | None) -> "_Visit | None":
        """What these clients keep, and what it makes of their steps."""
        local = self.program.algorithm.local
        if local is None or self.kept is None:
            return None
        program, rows, told = self.program, self.kept.read(who, isinstance(number, Tensor)), _beside(sent)
        if not program.theirs:
            return _Visit(local, rows, told, shift_of(local, rows, told))
        model, made = (program.sizes, program.net.dtype), local.begin(rows, told)
        shift = as_a_shift(made, local.begin, program.called, *model, who.shape, rows, told)
        return _Visit(local, rows, told, {name: leaf.clone() for name, leaf in shift.items()})  # it may be used again

    def _learn(self, who: Tensor, kept: "_Visit", x: Params, reply: Reply) -> None:
        """What they keep from now on; without a step, or an answer, what they kept before."""
        ranks, shape, tables = self.program.ranks, who.shape, self.kept
        assert tables is not None

        def wide(model: Params) -> Params:
            return {n: leaf if leaf.dim() > ranks[n] else leaf.unsqueeze(1) for n, leaf in model.items()}

        reach, lr = kept.reach, kept.lr.expand(shape)
        direction = _unfold(kept.direction, shape)
        new = kept.local.end(kept.rows, kept.sent, Leg(wide(x), wide(reply.x), direction, reach, lr))
        if reply.came is not None or not self.program.moving:
            moved = reach * lr > 0
            took = moved if reply.came is None else moved & reply.came.view(shape)
            old = tables.held(who)
            new = {n: torch.where(per_leg(took, leaf), leaf, old[n]) for n, leaf in new.items()}
        tables.write(who, new)


class _Visit:
    """What the clients of one call keep."""

    reach: Tensor  # [L, C]
    lr: Tensor  # [L, 1]

    def __init__(self, local: Local, rows: Params, sent: Params, shift: Params) -> None:
        self.local, self.rows, self.sent, self.shift = local, rows, sent, shift
        self.direction: Params = {}  # [N, ...] when they have trained


def _sum(own: Params, given: Params) -> Params:
    """What clients add to their steps, and what they are told to add."""
    return {n: leaf + (given[n] if given[n].dim() == leaf.dim() else given[n].unsqueeze(1)) for n, leaf in own.items()}


def _columns(index: Tensor) -> Tensor:
    return index if index.dim() == 2 else index.unsqueeze(1)


def _like(came: Tensor | None, index: Tensor) -> Tensor | None:
    return None if came is None else came.view(index.shape)


def _shaped(facts: Callable[[], Facts], shape: torch.Size) -> Facts:
    return Facts(*(each.view(shape) for each in facts()))


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
