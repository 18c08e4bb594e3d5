"""PairGraB and FL-GraB (Li and Lyu, 2025): orders that balance clients' updates, two by two."""

import torch
from torch import Tensor

from baton.algorithms.base import Algorithm
from baton.algorithms.mean import average, check_weighting, weights
from baton.lanes import Params, per_lane, per_leg, where
from baton.seam import Cohort, Now, Reply, Sites, State

# Each client's place in the next epoch, so far: below 0 on the front list, above 0 on the back list, which is read
# backwards, 0 where it had no turn. This epoch's clients by place.
RANK, ORDER = "rank", "order"
EPOCH = "epoch"  # the epoch that these are of: a round of another one that counts begins it, whatever was aborted


def pairgrab() -> Algorithm:
    """A chain whose next epoch's order balances what clients did to the model, two by two (PairGraB, Li and Lyu, 2025).

    An epoch is M/S rounds. The first follows the schedule, as `reshuffled`; clients that it left out, or whose round
    was aborted, stand between the two lists in the next. Where S does not divide M, an epoch's last round visits some
    clients again.
    """

    def round(state: State, order: Cohort, sites: Sites) -> State:
        x, models, who = state.model, [state.model], list[Tensor]()
        for client in order:
            reply = sites.train(x, client)
            who.append(reply.who(client))
            x = reply.x
            models.append(x)
        pairs = [_apart(*models[i : i + 3]) for i in range(0, len(order) - 1, 2)]
        return State(x, _balanced(state, torch.stack(who, 1), pairs, sites.now))

    return Algorithm(round, server=_first, order=_order)


def flgrab(*, weighting: str = "uniform") -> Algorithm:
    """Parallel rounds along an order that balances clients' updates, two by two (FL-GraB, Li and Lyu, 2025).

    As pairgrab; the S clients of a round start from one model and are averaged. weighting=size: an update counts by
    its client's samples in both.
    """
    check_weighting("flgrab", weighting)

    def round(state: State, order: Cohort, sites: Sites) -> State:
        reply = sites.train(state.model, order)
        ends = reply.x if weighting == "uniform" else _by_size(state.model, reply)
        pairs = [{n: y[:, i + 1] - y[:, i] for n, y in ends.items()} for i in range(0, len(order) - 1, 2)]
        new = average(reply.x, weights(reply, weighting))
        return State(new, _balanced(state, reply.who(order), pairs, sites.now))

    return Algorithm(round, server=_first, order=_order)


def _apart(x: Params, y: Params, z: Params) -> Params:
    """u_1 - u_2 of two legs of a chain, from x to y and from y to z: (x - y) - (y - z)."""
    return {n: torch.add(leaf, z[n]).sub_(y[n], alpha=2) for n, leaf in x.items()}


def _by_size(x: Params, reply: Reply) -> Params:
    """n_i (y - x), what a client's update comes to in an average by size."""
    weight = weights(reply, "size")
    return {n: (leaf - x[n].unsqueeze(1)) * per_leg(weight.to(leaf.dtype), leaf) for n, leaf in reply.x.items()}


def _rounds(now: Now) -> int:
    """Of an epoch."""
    return -(-now.clients // now.participants)


def _first(x: Params, now: Now) -> Params:
    rank = torch.zeros(len(now.lr), now.clients, dtype=now.lr.dtype, device=now.lr.device)
    by_number = torch.arange(now.clients, device=rank.device).to(rank.dtype).expand_as(rank).clone()
    nothing = {f"s.{n}": torch.zeros_like(leaf) for n, leaf in x.items()}
    return {**nothing, RANK: rank, ORDER: by_number, EPOCH: torch.zeros_like(rank[:, :1])}


def _of_epoch(kept: Params, epoch: int | Tensor) -> Params:
    """What the server keeps, of this epoch: where its last round was of an earlier one, that one's ranks are the order.

    Each epoch's sum begins at 0, and all clients stand in the middle until they are visited.
    """
    now = torch.as_tensor(epoch, dtype=kept[EPOCH].dtype, device=kept[EPOCH].device)
    begins = kept[EPOCH].squeeze(1) < now
    if not begins.is_cuda and not bool(begins.any()):
        return kept
    rank = kept[RANK]
    new = {n: torch.zeros_like(leaf) for n, leaf in kept.items() if n.startswith("s.")}
    new |= {RANK: torch.zeros_like(rank), ORDER: rank.argsort(dim=1, stable=True).to(rank.dtype)}
    return where(begins, {**new, EPOCH: now.expand_as(kept[EPOCH])}, kept)


def _order(state: State, drawn: Tensor, now: Now) -> Tensor:
    """The next S clients of the epoch; in the first one the schedule's."""
    epoch, place = now.round // _rounds(now), now.round % _rounds(now)
    begin = torch.as_tensor(place * now.participants, device=drawn.device).clamp(max=now.clients - now.participants)
    at = begin + torch.arange(now.participants, device=drawn.device)
    own = _of_epoch(state.server, epoch)[ORDER].index_select(1, at).round().long()
    return torch.where(torch.as_tensor(epoch == 0, device=drawn.device), drawn, own)


def _balanced(state: State, who: Tensor, pairs: list[Params], now: Now) -> Params:
    """What the server keeps after a round: the running sum, and where each client goes in the next epoch.

    who [L, S]: the clients, two by two; pairs: d = u_1 - u_2 of each two. The one that takes the sum s towards 0 goes
    to the front. A client that is left goes there too.
    """
    kept, count = _of_epoch(state.server, now.round // _rounds(now)), who.shape[1]
    s, rank = {n: kept[f"s.{n}"] for n in state.model}, kept[RANK]
    half, left = count // 2, _rounds(now) - now.round % _rounds(now)  # rounds of the epoch, with this one
    front, back = -left * (count - half), left * half  # the next free places
    for i, d in enumerate(pairs):
        along = torch.stack([_dot(s[n], d[n]) for n in sorted(s)]).sum(0)  # a file's order is not the model's
        towards = along <= 0  # |s + d| <= |s - d|
        sign = torch.where(towards, 1.0, -1.0).to(now.lr.dtype)
        s = {n: torch.addcmul(leaf, per_lane(sign, leaf).to(leaf.dtype), d[n]) for n, leaf in s.items()}
        pair = who[:, 2 * i : 2 * i + 2]
        ends = [torch.as_tensor(end, dtype=rank.dtype, device=rank.device) for end in (front + i, back - i)]
        first, second = torch.where(towards, ends[0], ends[1]), torch.where(towards, ends[1], ends[0])
        rank = rank.scatter(1, pair, torch.stack([first, second], 1))
    if count % 2:
        alone = torch.as_tensor(front + half, dtype=rank.dtype, device=rank.device).expand(len(rank), 1)
        rank = rank.scatter(1, who[:, -1:], alone)
    return {**{f"s.{n}": leaf for n, leaf in s.items()}, RANK: rank, ORDER: kept[ORDER], EPOCH: kept[EPOCH]}


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """In each lane: [L]."""
    found: Tensor = torch.linalg.vecdot(a.reshape(len(a), -1), b.reshape(len(b), -1))
    return found
