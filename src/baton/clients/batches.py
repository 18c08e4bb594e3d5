"""The minibatches of a visit: all keyed, nothing kept between visits."""

from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.clients.tables import Clients, spans
from baton.lanes import Lanes
from baton.setting import Setting

LEAST = 1e-30  # what a sample of weight 0 counts: its steps are taken, and no gradient is moved by it
MANY = 16384  # samples of a leg: drawing them is worth a call, and those of a whole round take memory


class Batches(NamedTuple):
    """The minibatches of one leg a lane."""

    places: Tensor  # [L, K, b] in the pool
    weight: (
        Tensor  # [L, K, b] 1, or what the sample counts; 0: padding of a short batch, or of a client without samples
    )
    key: Tensor  # [L, K] for what is drawn anew at each step: dropout, augmentation


def visit(seed: Tensor, round: int | Tensor, client: Tensor, number: int | Tensor = 0) -> Tensor:
    """The key of all that a visit draws. number: how often the client was visited in this round before."""
    key = rng.bits(seed, rng.SHUFFLE, round, client)
    if isinstance(number, int):
        return rng.bits(key, number) if number else key
    return torch.where(number > 0, rng.bits(key, number), key)


def width(setting: Setting, largest: int) -> int:
    """Samples drawn for one step: b, but no more than any client can fill where they are not put back."""
    return max(1, min(setting.batch_size, largest)) if setting.sampling == "shuffle" else setting.batch_size


def slots(setting: Setting, largest: int) -> int:
    """Steps that a leg has room for: K, or those of E passes over the samples of the largest client."""
    return setting.local_steps or max(1, setting.epochs * -(-largest // setting.batch_size))


def by_the_leg(setting: Setting, largest: int) -> bool:
    """Whether a leg draws so much that a round's legs had better do so one after another, each when it is its turn."""
    return slots(setting, largest) * width(setting, largest) > MANY


def taken(count: Tensor, setting: Setting, passes: int = 0) -> tuple[Tensor, Tensor]:
    """(samples, steps) of a leg at clients that hold so many: tau_m steps, a short batch at the end of each pass."""
    batch = setting.batch_size
    per_pass = (count + batch - 1) // batch
    if setting.epochs:
        steps = setting.epochs * per_pass
    else:
        steps = torch.full_like(count, setting.local_steps)
        steps = torch.where(count > 0, torch.minimum(steps, passes * per_pass) if passes else steps, 0)
    if setting.sampling != "shuffle":
        return steps * batch, steps
    whole = steps // per_pass.clamp(min=1)
    return whole * count + torch.minimum((steps - whole * per_pass) * batch, count), steps


def reached(steps: Tensor, momentum: Tensor | None) -> Tensor:
    """How far a constant direction moves a model in so many steps, in learning rates: more with momentum."""
    if momentum is None:
        return steps
    m = momentum.view(-1, *[1] * (steps.dim() - 1))
    return (steps - m * (1 - m**steps) / (1 - m)) / (1 - m)


def batches(clients: Clients, lanes: Lanes, row: Tensor, key: Tensor, setting: Setting, passes: int = 0) -> Batches:
    """K minibatches for one visit a lane: shuffled, cut into b, a short last one, reshuffled after each pass.

    row [L]: whose samples; key [L]: of the visit. passes: if not 0, batches after so many passes over the client's
    samples are empty. With epochs K is what the largest client takes, and passes is E.
    """
    steps, size = slots(setting, clients.largest), width(setting, clients.largest)
    first, count = spans(clients, lanes, row)
    if setting.sampling != "shuffle":
        slot = torch.arange(steps * size, device=row.device)
        draw = rng.bits(key.unsqueeze(1), rng.REPLACEMENT, slot)
        if setting.sampling == "balanced":
            item = _balanced(clients, lanes, row, key, draw).view(-1, steps, size)
        else:
            item = rng.below(draw, count.clamp(min=1).unsqueeze(1)).view(-1, steps, size)
        weight = (count > 0).to(lanes.lr.dtype).view(-1, 1, 1).expand(item.shape).contiguous()
    else:
        if setting.epochs:
            order = rng.whole_passes(key, count, setting.epochs, clients.largest)
        else:
            order = rng.passes(key, count, steps * size, clients.smallest, clients.largest)
        n = count.view(-1, 1, 1)
        per_pass = ((n + setting.batch_size - 1) // setting.batch_size).clamp(min=1)
        step = torch.arange(steps, device=row.device).view(1, -1, 1)
        place = (step % per_pass) * setting.batch_size + torch.arange(size, device=row.device)  # [L, K, b]
        weight = (place < n).to(lanes.lr.dtype)
        flat = ((step // per_pass) * n + place).clamp(max=order.shape[1] - 1).flatten(1)
        item = order.gather(1, flat).view(place.shape)
    if passes:
        live = torch.arange(steps, device=row.device) < taken(count, setting, passes)[1].unsqueeze(1)  # [L, K]
        weight = weight * live.unsqueeze(2)
    places = clients.samples[(first.view(-1, 1, 1) + item).clamp(max=len(clients.samples) - 1)]
    if clients.weight is not None:
        weight = weight * clients.weight[places].clamp(min=LEAST)
    return Batches(places, weight, rng.bits(key.unsqueeze(1), rng.DROPOUT, torch.arange(steps, device=row.device)))


def _balanced(clients: Clients, lanes: Lanes, row: Tensor, key: Tensor, draw: Tensor) -> Tensor:
    """Samples of a client, by their number at it [L, n]: a class that it holds, all alike, then one of its samples.

    Both are put back. draw [L, n]: of the sample; at a client of one class this is drawing with replacement.
    """
    kinds = clients.kinds
    assert kinds is not None
    begin = kinds.start[lanes.partition, row]
    held = (kinds.start[lanes.partition, row + 1] - begin).clamp(min=1)
    slot = torch.arange(draw.shape[1], device=row.device)
    chosen = rng.below(rng.bits(key.unsqueeze(1), rng.BALANCE, slot), held.unsqueeze(1)) + begin.unsqueeze(1)
    chosen = chosen.clamp(max=len(kinds.size) - 1)  # a client without samples may come last
    return kinds.first[chosen] + rng.below(draw, kinds.size[chosen])
