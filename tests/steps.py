"""Legs of their own, without a program around them: steps with every term that there is, and torch's own leg.

And visits and rounds of a program, without the loop around them.
"""

from collections.abc import Collection

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from baton.clients import Batches, Clients, batches, visit
from baton.lanes import Lanes, Params
from baton.legs.base import Step
from baton.nn import Net
from baton.seam import Cohort, State
from baton.setting import Setting
from baton.simulate.program import Program
from baton.simulate.simulation import Simulation

TERMS = [  # alone, and all together
    {"momentum"},
    {"pull"},
    {"pull", "anchor"},
    {"shift"},
    {"ragged"},
    {"momentum", "ragged"},
    {"momentum", "pull", "anchor", "shift", "ragged"},
]


def drawn_at(data: Clients, lanes: Lanes, round: int, client: torch.Tensor, setting: Setting) -> Batches:
    """The minibatches of a first visit to one client a lane [L]."""
    return batches(data, lanes, client, visit(lanes.seed, round, client), setting)


def sites_of(program: Program, round: int = 0, order: torch.Tensor | None = None) -> Simulation:
    """The sites of one round; nothing is drawn ahead, and clients keep nothing."""
    order = program.order(round) if order is None else order
    return Simulation(program, program.now(round, program.rate(round)), order)


def round_of(program: Program, x: Params, round: int = 0, order: torch.Tensor | None = None) -> Params:
    """One round from the model x, of an algorithm that keeps nothing."""
    sites = sites_of(program, round, order)
    return program.algorithm.round(State(x), Cohort.whole(sites.order), sites).model


def step_of(lanes: Lanes, drawn: Batches) -> Step:
    """The lanes' own step, without anything else; what draws no sample takes none."""
    held = drawn.weight.sum((1, 2)) > 0
    return Step(torch.where(held, lanes.lr, 0.0), lanes.clip, lanes.weight_decay)


def with_terms(step: Step, x: Params, terms: Collection[str], anchors: int = 0, shifts: int = 0) -> Step:
    """step with some terms more; anchors, shifts: how many lanes these have, if not one for each leg."""
    legs = len(step.lr)
    draw = torch.Generator().manual_seed(7)

    def near(lanes: int) -> Params:
        made = {n: torch.randn(lanes, *leaf.shape[1:], generator=draw, dtype=torch.float64) for n, leaf in x.items()}
        return {n: 0.1 * leaf.to(x[n]) for n, leaf in made.items()}

    def column(values: list[float]) -> torch.Tensor:
        return torch.tensor((values * legs)[:legs]).to(step.lr)

    return step._replace(
        momentum=column([0.9, 0.0, 0.5]) if "momentum" in terms else None,
        pull=column([0.3, 2.0, 0.0]) if "pull" in terms else None,
        anchor=near(anchors or legs) if "anchor" in terms else None,
        shift=near(shifts or legs) if "shift" in terms else None,
        ragged="ragged" in terms,
    )


def cut_short(drawn: Batches, step: Step) -> Batches:
    """Where steps are ragged: legs that end after one step, after two, ..., or never."""
    legs, count, _ = drawn.weight.shape
    if not step.ragged:
        return drawn
    taken = torch.arange(1, legs + 1, device=drawn.weight.device).view(-1, 1, 1)
    return drawn._replace(weight=drawn.weight * (torch.arange(count).to(taken).view(1, -1, 1) < taken))


def its_lane(x: Params, leg: int, legs: int) -> Params:
    """The lane that stands for a leg."""
    return {name: leaf[leg * len(leaf) // legs] for name, leaf in x.items()}


def directions(x: Params, made: Params, step: Step, inverse: torch.Tensor) -> Params:
    """Each leg's mean direction by its definition, leg by leg: (start - end) inverse - shift."""
    legs, told = len(inverse), []
    for leg in range(legs):
        begin, shift = its_lane(x, leg, legs), step.shift and its_lane(step.shift, leg, legs)
        moved = {n: (begin[n] - leaf[leg]) * inverse[leg] for n, leaf in made.items()}
        told.append({n: leaf - shift[n] if shift else leaf for n, leaf in moved.items()})
    return {n: torch.stack([leg[n] for leg in told]) for n in made}


def by_torch(net: Net, data: Clients, x: Params, drawn: Batches, leg: int, step: Step) -> tuple[Params, list[float]]:
    """One leg as anyone would write it, on the same minibatches; also each gradient's norm."""
    module = net.build().to(net.dtype).train()
    legs = len(step.lr)
    module.load_state_dict(its_lane(x, leg, legs))
    anchor = its_lane(x if step.anchor is None else step.anchor, leg, legs)
    shift = None if step.shift is None else its_lane(step.shift, leg, legs)
    lr, clip, decay = (float(column[leg]) for column in step[:3])
    momentum, pull = (0.0 if column is None else float(column[leg]) for column in (step.momentum, step.pull))
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=momentum, weight_decay=decay)
    norms = []
    for places, weight in zip(drawn.places[leg], drawn.weight[leg], strict=True):
        at = places[weight > 0]
        if not len(at):
            continue
        optimizer.zero_grad()
        cross_entropy(module(data.x[at]), data.y[at]).backward()
        norms.append(float(clip_grad_norm_(module.parameters(), clip if clip > 0 else float("inf"))))
        for name, p in module.named_parameters():
            assert p.grad is not None
            p.grad += pull * (p.detach() - anchor[name])
            if shift is not None:
                p.grad += shift[name]
        optimizer.step()
    return {name: p.detach() for name, p in module.named_parameters()}, norms
