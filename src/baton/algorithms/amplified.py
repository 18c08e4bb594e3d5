"""Amplified FedAvg (Wang and Ji, 2022) and amplified SCAFFOLD (Crawshaw and Liu, 2024): for clients that take turns."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.fedseq import check_every
from baton.algorithms.mean import average, check_weighting, towards, weights
from baton.algorithms.shares import SAMPLES, all_samples, shares, unknown
from baton.algorithms.ways import way
from baton.lanes import Params, per_lane, per_leg, where, zeros
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


def amplified_scaffold(
    *, every: int, server_lr: Tensor = lane(1.0, above=0.0), weighting: str = "uniform"
) -> Algorithm:
    """Amplified FedAvg with SCAFFOLD's controls, renewed once in so many rounds (Crawshaw and Liu, 2024).

    A client's new control is the mean direction of all its legs in a period, and counts from the next period on.
    weighting=size: both means, of models and of controls, are by samples. every=1 is scaffold up to rounding.
    """
    check_every("amplified_scaffold", "every", every)
    check_weighting("amplified_scaffold", weighting)
    move = towards(server_lr)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, now = state.model, sites.now
        period = torch.as_tensor(now.round // every, dtype=now.lr.dtype, device=now.lr.device).expand_as(now.lr)
        kept = _caught_up(state.server, x, period)
        c = _part(kept, "c")
        reply = sites.train(x, order, sent={**c, PERIOD: 1 + period.unsqueeze(1)})
        far = reply.reach * now.lr.unsqueeze(1)
        moved = far > 0 if reply.came is None else (far > 0) & reply.came
        known = shares(kept, order, reply, moved, now).samples
        who = reply.who(order)
        at = _slots(kept[SLOT], who, now.round % every, kept[LEGS].shape[1])
        ways = {n: _ways(leaf, reply.x[n], torch.where(moved, 1 / far, 0.0)) for n, leaf in x.items()}
        new = {f"sum.{n}": _added(kept[f"sum.{n}"], at, leaf) for n, leaf in ways.items()}
        legs = kept[LEGS].scatter_add(1, at, moved.to(far.dtype))
        slot = kept[SLOT].scatter(1, who, torch.where(moved, 1.0 + at, kept[SLOT].gather(1, who)).to(far.dtype))
        kept = {**kept, **new, **known, LEGS: legs, SLOT: slot}
        end = average(reply.x, weights(reply, weighting))
        if now.kind:
            end = move(_part(kept, "old"), end)
            kept = {**_renewed(kept, x, period + 1), **_named("old", end)}
        return State(end, kept)

    def first(x: Params, now: Now) -> Params:
        some = torch.zeros(len(now.lr), now.clients, dtype=now.lr.dtype, device=now.lr.device)
        slots = min(now.clients, now.participants * every)
        sums = {n: leaf.new_zeros(len(leaf), slots, *leaf.shape[1:]) for n, leaf in x.items()}
        parts = {**_named("old", _copy(x, now)), **_named("c", zeros(x)), **_named("sum", sums)}
        parts |= {LEGS: some[:, :slots].clone(), SLOT: some, PERIOD: some[:, :1].clone()}
        return parts if weighting == "uniform" else {**parts, **unknown(weighting, now), TOTAL: some[:, :1].clone()}

    local = Local(_first_kept, _begin, _end)
    return Algorithm(round, server=first, local=local, kind=lambda number: number % every == every - 1, once=True)


# What the server keeps: x_old, c, and of the clients that took part in the period so far the sum of their legs' mean
# directions (less their controls), in a slot each. The controls of a period end with it, by the round's number: if its
# last round is aborted, they are renewed when the next one comes that counts, here as at the clients.
LEGS, SLOT, PERIOD = "legs", "slot", "period"  # of each slot; each client's slot, from 1, 0: none; which period it is
TOTAL = "total"  # n when the controls were renewed


def _copy(x: Params, _now: Now) -> Params:
    return {n: leaf.clone() for n, leaf in x.items()}


def _named(part: str, x: Params) -> Params:
    return {f"{part}.{n}": leaf for n, leaf in x.items()}


def _part(kept: Params, part: str) -> Params:
    return {n.removeprefix(f"{part}."): leaf for n, leaf in kept.items() if n.startswith(f"{part}.")}


def _caught_up(kept: Params, x: Params, period: Tensor) -> Params:
    """What the server keeps, with the controls renewed where the end of the period before was aborted."""
    late = kept[PERIOD].squeeze(1) < period
    if not late.is_cuda and not bool(late.any()):
        return kept
    return where(late, _renewed(kept, x, period), kept)


def _renewed(kept: Params, x: Params, period: Tensor) -> Params:
    """Return what the server keeps when a period begins: c + the sum of p_i (c_i+ - c_i) over who took part before."""
    seen = kept[LEGS] > 0  # [L, slots]
    share = seen.to(period.dtype) / kept[SLOT].shape[1]
    new, before = dict(kept), torch.ones_like(period)
    if SAMPLES in kept:
        total = all_samples(kept[SAMPLES])
        count = kept[SAMPLES].clamp(min=0) / total.unsqueeze(1)
        share = torch.where(seen, _by_slot(kept[SLOT], count, seen.shape[1]), 0.0)
        before, new[TOTAL] = kept[TOTAL].squeeze(1) / total, total.unsqueeze(1)
    each, stays = share / kept[LEGS].clamp(min=1), before - share.sum(1)
    for n in x:
        moved = torch.einsum("ls,ls...->l...", each.to(x[n].dtype), kept[f"sum.{n}"])
        new[f"c.{n}"] = moved.addcmul_(per_lane(stays, x[n]), kept[f"c.{n}"])
        new[f"sum.{n}"] = torch.zeros_like(kept[f"sum.{n}"])
    return {**new, LEGS: torch.zeros_like(kept[LEGS]), SLOT: torch.zeros_like(kept[SLOT]), PERIOD: period.unsqueeze(1)}


def _ways(x: Tensor, ends: Tensor, inverse: Tensor) -> Tensor:
    """(x - y) / (lr K) of each leg [L, S, ...]."""
    return (x.unsqueeze(1) - ends).mul_(per_leg(inverse, ends))


def _slots(table: Tensor, who: Tensor, place: int | Tensor, count: int) -> Tensor:
    """Where each client's sum lies [L, S]: by its number where all have room, else as they come."""
    if count == table.shape[1]:
        return who
    mine = table.gather(1, who)
    fresh = place * who.shape[1] + torch.arange(who.shape[1], device=who.device)
    return torch.where(mine > 0, mine.round().long() - 1, fresh)


def _by_slot(table: Tensor, count: Tensor, slots: int) -> Tensor:
    """Clients' numbers [L, M] as those of their slots [L, slots]."""
    spare = torch.zeros(len(table), 1 + slots, dtype=count.dtype, device=count.device)
    return spare.scatter(1, table.round().long(), count)[:, 1:]


def _added(sums: Tensor, at: Tensor, ways: Tensor) -> Tensor:
    """Sums [L, slots, ...] with these added at some slots [L, S]."""
    first = torch.arange(len(sums), device=at.device).unsqueeze(1) * sums.shape[1]
    return sums.flatten(0, 1).index_add(0, (first + at).flatten(), ways.flatten(0, 1)).view_as(sums)


def _first_kept(x: Params) -> Params:
    """A client's control, the one that follows it, of how many legs that is the mean, and the period they were in."""
    like = next(iter(x.values()))
    none = like.new_zeros(len(like), 1)
    return {**_named("c", zeros(x)), **_named("new", zeros(x)), LEGS: none, PERIOD: none.clone()}


def _in_use(kept: Params, sent: Params) -> tuple[Params, Tensor]:
    """(the control of this period, whether this is its first leg [L, C])."""
    first = (sent[PERIOD] > kept[PERIOD]).squeeze(-1)
    own, new = _part(kept, "c"), _part(kept, "new")
    return {n: torch.where(per_leg(first, leaf), new[n], leaf) for n, leaf in own.items()}, first


def _begin(kept: Params, sent: Params) -> Params:
    return {n: sent[n] - leaf for n, leaf in _in_use(kept, sent)[0].items()}


def _end(kept: Params, sent: Params, leg: Leg) -> Params:
    mine, first = _in_use(kept, sent)
    legs = torch.where(first.unsqueeze(-1), 1.0, kept[LEGS] + 1)
    new = _part(kept, "new")
    for n, leaf in new.items():
        before = torch.where(per_leg(first, leaf), 0.0, leaf)
        new[n] = before + (leg.direction[n] - before) / per_leg(legs.squeeze(-1), leaf)
    period = sent[PERIOD].expand_as(kept[PERIOD]).clone()
    return {**_named("c", mine), **_named("new", new), LEGS: legs, PERIOD: period}
