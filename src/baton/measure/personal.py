"""Personal models: the final model, trained a few steps more at each site, and what it is worth there."""

from typing import NamedTuple

import torch
from torch import Tensor

from baton import clients as held
from baton.errors import BadInput
from baton.lanes import Params
from baton.seam import Cohort
from baton.setting import Setting
from baton.simulate.engine import Program
from baton.simulate.simulation import Simulation
from baton.store.columns import SITE

AT_ONCE = 64  # sites trained side by side


class Personal(NamedTuple):
    """Of one run: each site's model, and its share of right answers before and after, in percent."""

    models: Params  # [M, ...]
    samples: Tensor  # [M] for training
    before: Tensor  # [M] nan where the site has no test rows
    after: Tensor  # [M]
    told: dict[str, dict[int, tuple[float, float]]]  # of the run's own metrics: client -> before and after


def fine_tuned(setting: Setting, x: Params, device: torch.device, steps: int = 10) -> Personal:
    """Each site's model after so many local steps from x (leaves without lane axis), with the run's own step.

    A site's test rows are its own where the data set says whose they are; else all of them, each label counted as
    often as the site holds it. Minibatches are those of the round after the last.
    """
    if steps < 1:
        raise BadInput(f"steps: {steps}; 1 or more is right")
    few = {"algorithm": "parallel", "local_steps": steps, "schedule": "shuffled"}
    program = Program([Setting(**{**setting.model_dump(), **few})], device)
    if not program.evaluate.labelled:
        raise BadInput(f"measure: {setting.dataset} has no labels, so that there is no accuracy; 'drift' is right")
    start = {n: leaf.unsqueeze(0).to(device) for n, leaf in x.items()}
    now = program.now(setting.rounds, program.rate(0))
    made, every = [], torch.arange(setting.clients, device=device)
    for some in torch.split(every, AT_ONCE):
        order = some.unsqueeze(0)
        made.append(Simulation(program, now, order).train(start, Cohort(order)).x)
    models = {n: torch.cat([part[n][0] for part in made]) for n in start}
    weight = _weights(program)  # [M, n]
    right = _right(program, models)
    before = _right(program, start).expand_as(right)
    count = held.spans(program.clients, program.lanes, every.unsqueeze(0))[1][0]
    return Personal(models, count, _share(before, weight), _share(right, weight), _told(program, start, models))


def _told(program: Program, x: Params, models: Params) -> dict[str, dict[int, tuple[float, float]]]:
    """What the run measures at every site, of x and of each site's own model."""
    asked = program.evaluate.asked
    if asked is None or asked.sites is None:
        return {}
    whose, found = asked.sites.client.tolist(), {}
    before = program.evaluate.on_test(x)
    after = program.evaluate.on_test(x, {n: leaf.unsqueeze(0) for n, leaf in models.items()})
    for label in asked.metrics:
        both = before[SITE + label][0].tolist(), after[SITE + label][0].tolist()
        found[label] = dict(zip(whose, zip(*both, strict=True), strict=True))
    return found


def _weights(program: Program) -> Tensor:
    """What each test row counts at each site: [M, n]."""
    table, owner = program.clients, program.test_owner
    if owner is not None:
        return (owner.unsqueeze(0) == torch.arange(table.start.shape[1] - 1, device=owner.device).unsqueeze(1)).double()
    y = table.test_y[0]
    classes = max(int(y.max()), int(table.y.max())) + 1
    share = held.labels(table, classes)[0].double()  # [M, classes]
    there = torch.bincount(y, minlength=classes).clamp(min=1)
    return (share / there)[:, y]


def _right(program: Program, models: Params) -> Tensor:
    """Which test rows each model answers rightly: [M, n]."""
    table = program.clients
    places = torch.arange(table.test_y.shape[1], device=table.test_y.device)
    sizes, found = len(next(iter(models.values()))), []
    for i in range(0, sizes, AT_ONCE):
        some = {n: leaf[i : i + AT_ONCE].contiguous() for n, leaf in models.items()}
        found.append(program.legs.outputs(some, table.test_x[0], places).argmax(-1) == table.test_y[0])
    return torch.cat(found).double()


def _share(right: Tensor, weight: Tensor) -> Tensor:
    return 100 * (right * weight).sum(1) / weight.sum(1)
