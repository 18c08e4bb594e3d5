"""Amplified FedAvg (Wang and Ji, 2022) and amplified SCAFFOLD (Crawshaw and Liu, 2024): for clients that take turns."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.fedseq import check_every
from baton.algorithms.mean import average, towards, weights
from baton.algorithms.ways import way
from baton.lanes import Params, per_lane, per_leg, zeros
from baton.names import lane
from baton.seam import Cohort, Leg, Local, Now, Sites, State


def amplified(
    *, every: int, server_lr: Tensor = lane(1.0, above=0.0), weighting: str = "uniform", of: str = "parallel"
) -> Algorithm:
    """Every so many rounds x = x_old + server_lr (x - x_old), x_old the model so long ago (Wang and Ji, 2022).

    server_lr=1 is parallel (or sequential, by `of`), and so is every=1 with parallel:server_lr.
    """
    check_every("amplified", "every", every)
    go, move = way("amplified", of, weighting), towards(server_lr)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x = go(state.model, order, sites)
        if not sites.now.kind:
            return State(x, state.server)
        x = move(state.server, x)
        return State(x, dict(x))

    return Algorithm(round, server=_copy, kind=lambda number: number % every == every - 1)


def amplified_scaffold(*, every: int, server_lr: Tensor = lane(1.0, above=0.0)) -> Algorithm:
    """Amplified FedAvg with SCAFFOLD's controls, renewed once in so many rounds (Crawshaw and Liu, 2024).

    A client's new control is the mean direction of its first leg in a period, and counts from the next period on.
    every=1 is scaffold up to rounding.
    """
    check_every("amplified_scaffold", "every", every)
    move = towards(server_lr)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, kept, now = state.model, state.server, sites.now
        c = {n: kept[f"c.{n}"] for n in x}
        period = torch.as_tensor(now.round // every + 1, dtype=now.lr.dtype, device=now.lr.device).expand_as(now.lr)
        reply = sites.train(x, order, sent={**c, PERIOD: period.unsqueeze(1)})
        end = average(reply.x, weights(reply, "uniform"))
        who = reply.who(order)
        fresh = kept[SEEN].gather(1, who) == 0  # [L, S]: the first leg in this period
        far = reply.reach * now.lr.unsqueeze(1)
        fresh = fresh & (far > 0) if reply.came is None else fresh & (far > 0) & reply.came
        each, stays = torch.where(fresh, 1 / far / now.clients, 0.0), fresh.sum(1).to(far.dtype) / now.clients
        new = Params()
        for n, leaf in x.items():
            moved = per_lane(each.sum(1), leaf) * leaf - torch.einsum("ls,ls...->l...", each.to(leaf.dtype), reply.x[n])
            new[n] = kept[f"new.{n}"] + moved - per_lane(stays, leaf) * c[n]
        seen = kept[SEEN].scatter(1, who, (fresh | (kept[SEEN].gather(1, who) > 0)).to(far.dtype))
        old = {n: kept[f"old.{n}"] for n in x}
        if now.kind:
            end = move(old, end)
            old, c, seen = end, new, torch.zeros_like(seen)
        return State(end, {**_named("old", old), **_named("c", c), **_named("new", new), SEEN: seen})

    def first(x: Params, now: Now) -> Params:
        seen = torch.zeros(len(now.lr), now.clients, dtype=now.lr.dtype, device=now.lr.device)
        parts = {**_named("old", _copy(x, now)), **_named("c", zeros(x)), **_named("new", zeros(x))}
        return {**parts, SEEN: seen}

    local = Local(_first_kept, _begin, _end)
    return Algorithm(round, server=first, local=local, kind=lambda number: number % every == every - 1)


SEEN, PERIOD = "seen", "period"


def _copy(x: Params, _now: Now) -> Params:
    return {n: leaf.clone() for n, leaf in x.items()}


def _named(part: str, x: Params) -> Params:
    return {f"{part}.{n}": leaf for n, leaf in x.items()}


def _first_kept(x: Params) -> Params:
    """A client's control, the one that follows it, and the period that the latter was made in."""
    like = next(iter(x.values()))
    return {**_named("c", zeros(x)), **_named("new", zeros(x)), PERIOD: like.new_zeros(len(like), 1)}


def _in_use(kept: Params, sent: Params) -> tuple[Params, Tensor]:
    """(the control of this period, whether this is its first leg [L, C])."""
    first = (sent[PERIOD] > kept[PERIOD]).squeeze(-1)
    names = [n.removeprefix("c.") for n in kept if n.startswith("c.")]
    wide = {n: per_leg(first, kept[f"c.{n}"]) for n in names}
    return {n: torch.where(wide[n], kept[f"new.{n}"], kept[f"c.{n}"]) for n in names}, first


def _begin(kept: Params, sent: Params) -> Params:
    return {n: sent[n] - leaf for n, leaf in _in_use(kept, sent)[0].items()}


def _end(kept: Params, sent: Params, leg: Leg) -> Params:
    mine, first = _in_use(kept, sent)
    wide = {n: per_leg(first, leaf) for n, leaf in mine.items()}
    new = {n: torch.where(wide[n], leg.direction[n], kept[f"new.{n}"]) for n in mine}
    return {**_named("c", mine), **_named("new", new), PERIOD: sent[PERIOD].expand_as(kept[PERIOD]).clone()}
