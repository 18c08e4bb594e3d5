"""sigma^2 of the paper's Assumption 2: how far a minibatch's gradient is from its client's.

A batch of s of a client's n samples, drawn without replacement, has variance sigma_1^2 / s times the finite-population
factor (n - s) / (n - 1), where sigma_1^2 is the variance of one sample's gradient; with replacement, sigma_1^2 / s. A
pass over the client's samples ends in a short batch unless b divides n; the assumption is for every step, so where one
of the K steps meets that batch, its larger variance counts.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from baton import clients, rng
from baton.constants.objective import Group, Objective
from baton.lanes import Lanes
from baton.legs.plain import Gradient
from baton.setting import Setting

DRAWS = 128  # minibatches a client where gradients are random beyond the choice of samples
DRAWN_BYTES = 512 << 20  # what their gradients may take at once


def factor(n: int, setting: Setting) -> float:
    """Variance of the worst step's minibatch gradient over that of one sample's, at a client with n samples."""
    if setting.sampling == "replacement":
        return 1 / setting.batch_size
    full, rest = divmod(n, setting.batch_size)
    met = setting.epochs > 0 or setting.local_steps > full  # the short batch at the end of a pass
    sizes = ([setting.batch_size] if full else []) + ([rest] if rest and met else [])
    return max((n - s) / (s * (n - 1)) if n > 1 else 0.0 for s in sizes)


def keyed(objective: Objective) -> bool:
    """Whether a step draws more than its samples: dropout or augmentation."""
    layers = objective.net.module.modules()
    return objective.data.augment is not None or any(getattr(layer, "p", 0) for layer in layers)


def of_samples(objective: Objective, x: Tensor, some: list[int], group: Group) -> Tensor:
    """sigma^2 of each client of a group at x, exactly: from every sample's gradient."""
    loss_only = objective.gradients(x, group) - objective.decay * x
    single = (objective.squares(x, group) - loss_only.square().sum(1)).clamp(min=0)
    scale = [factor(int(objective.sizes[m]), objective.setting) for m in some]
    return single * x.new_tensor(scale)


def over_first(n: int, setting: Setting) -> float:
    """Variance of the worst step's minibatch gradient over that of a first step's."""
    s = min(n, setting.batch_size)
    if setting.sampling == "replacement" or s == n:
        return 1.0
    return factor(n, setting) * s * (n - 1) / (n - s)


def of_draws(objective: Objective, x: Tensor, client: int, step: Gradient) -> tuple[float, float]:
    """sigma^2 of one client at x and its standard error, from minibatches as a first step would draw them."""
    middle, away, squares = None, torch.zeros_like(x), []
    together = max(1, DRAWN_BYTES // (4 * 8 * objective.size))
    for flat in drawn(objective, x, client, step, DRAWS, together):
        middle = flat.mean(0) if middle is None else middle  # something near the mean, known before the last draw
        squares.append((flat - middle).square().sum(1))
        away += (flat - middle).sum(0) / DRAWS
    each = torch.cat(squares)
    value = float(each.mean() - away.square().sum()) * DRAWS / (DRAWS - 1)
    return value, float(each.std()) / DRAWS**0.5


def drawn(objective: Objective, x: Tensor, client: int, step: Gradient, draws: int, together: int) -> Iterator[Tensor]:
    """Gradients [n, d] of minibatches as a first step would draw them, `together` at a time; x as step takes it."""
    setting = Setting(**{**objective.setting.model_dump(), "local_steps": 1, "epochs": 0})
    number = torch.arange(draws, device=x.device)
    seeds = rng.shift(rng.bits(number, rng.EVALUATE, setting.seed, client), 1)
    zero = torch.zeros(1, dtype=x.dtype, device=x.device)
    params = {name: leaf.unsqueeze(0) for name, leaf in objective.leaves(x).items()}
    for seed in torch.split(seeds, together):
        count = len(seed)
        none = zero.expand(count)  # no rate, clip or decay: a gradient has none of them
        lanes, row = Lanes(seed, none, none, none, none, torch.zeros_like(seed)), torch.full_like(seed, client)
        batches = clients.batches(objective.table, lanes, row, clients.visit(seed, 0, row), setting)
        at = batches.places[:, 0]
        weight = batches.weight[:, 0].to(x.dtype)
        batch = (batches.key[:, 0], objective.table.x[at], objective.table.y[at], weight)
        found = step({name: leaf.expand(count, *leaf.shape[1:]) for name, leaf in params.items()}, *batch)
        yield torch.cat([found[name].flatten(1) for name in objective.shapes], 1)
