"""Client drift: how far a round's local steps are from where the round began.

E_r = sum over participants m = 1..S and steps k = 0..K-1 of E|x_mk - x_r|^2, given x_r; the expectation is over the
round's participants, their order and their minibatches. The paper's drift of sequential training is this sum; that of
parallel training is the mean over all M clients of the sum over k: E_r / S, since participants are drawn evenly.

Not a metric of runs: a run goes through each round once, and an expectation given x_r takes many rounds from the same
x_r. Since every draw is a pure function of (seed, round, client), a round is simply trained again from x_r, as lanes
that differ in their seed, with legs that stop after each step to look. Runs, their ids and their speed stay.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from baton import algorithms, constants, theory
from baton.clients import Batches
from baton.constants import Objective, Tell, silent
from baton.errors import BadInput
from baton.lanes import Params, norm
from baton.legs import Legs
from baton.legs.base import Step, repeated
from baton.measure import replay
from baton.seam import Cohort, State
from baton.setting import Setting
from baton.simulate import memory as mem
from baton.simulate.engine import Program, Snapshot
from baton.simulate.kept import Kept, laid_out
from baton.simulate.simulation import Simulation


class Drift(NamedTuple):
    """E_r of one round."""

    round: int
    total: float  # sum over S participants and K steps, the mean over draws
    error: float | None  # its standard error; None: one draw
    own: float  # in the run itself, with its own draws


class Watched:
    """Legs that are trained one step at a time, and add up |x_mk - x_r|^2 on the way: `total` [L]."""

    way = "watched"

    def __init__(self, legs: Legs, begin: Params, lanes: int, device: torch.device) -> None:
        """begin: x_r, [L, ...]."""
        self.legs, self.begin, self.outputs = legs, begin, legs.outputs
        self.total = torch.zeros(lanes, dtype=torch.float64, device=device)

    def train(self, x: Params, step: Step, batches: Batches) -> Params:
        """As the legs do; an anchor that is not given is where the leg starts, not the step."""
        legs = len(batches.key)
        x, begin = repeated(x, legs), repeated(self.begin, legs)
        step = step._replace(anchor=x) if step.pull is not None and step.anchor is None else step
        if step.momentum is not None:
            raise BadInput("momentum: drift is measured step by step, which forgets the velocity; 0 is right")
        for k in range(batches.places.shape[1]):
            away = norm({name: leaf.double() - begin[name].double() for name, leaf in x.items()}).square()
            if step.ragged:  # steps that are not taken do not count
                away = away * (batches.weight[:, k].sum(1) > 0)
            self.total += away.view(len(self.total), -1).sum(1)
            x = self.legs.train(x, step, Batches(*(field[:, k : k + 1].contiguous() for field in batches)))
        return x


def measure(
    setting: Setting,
    at: Sequence[int],
    device: torch.device,
    draws: int = 64,
    memory: int | None = None,
    tell: Tell = silent,
) -> list[tuple[Drift, Snapshot]]:
    """The drift of rounds `at` of the setting's run (0 is the first), each with the lane it began from.

    draws: so many seeds, the run's own first. A run that diverges is followed to where it does.
    """
    replay.check(setting, at)
    if algorithms.build(setting.algorithm).personal:
        raise BadInput(f"algorithm: {setting.algorithm}; its clients begin at models of their own, so none drifts away")
    if draws < 1:
        raise BadInput(f"draws: {draws}; at least 1 is right")
    run, programs = Program([replay.up_to(setting, at)], device), _lanes(setting, draws, device, memory)
    return [(_of(programs, snapshot), snapshot) for snapshot in replay.before(run, at, "drift", tell)]


def _lanes(setting: Setting, draws: int, device: torch.device, memory: int | None) -> list[Program]:
    """The same setting under other seeds, in chunks that fit the memory."""
    budget = memory or mem.free(device)
    seeds = [Setting(**{**setting.model_dump(), "seed": (setting.seed + i) % (1 << 63)}) for i in range(draws)]
    size = mem.lanes_that_fit(mem.per_lane(seeds, budget, device), budget)
    return [Program(seeds[i : i + size], device) for i in range(0, draws, size)]


def _of(programs: list[Program], at: Snapshot) -> Drift:
    each = []
    for program in programs:
        lanes, device = len(program.seeds), program.lanes.seed.device
        state = State(*(_wide(drawer, lanes) for drawer in at.state))
        legs = Watched(program.legs, state.model, lanes, device)
        now = program.now(at.round, program.rate(at.round))
        order = program.order(at.round)
        sites = Simulation(program, now, order, kept=Kept(laid_out(_wide(at.clients, lanes), None)), legs=legs)
        program.algorithm.round(state, Cohort.whole(order), sites)
        each.append(legs.total)
    total = torch.cat(each)
    count = len(total)
    error = float(total.std()) / count**0.5 if count > 1 else None
    return Drift(at.round, float(total.mean()), error, float(total[0]))


def _wide(drawer: Params, lanes: int) -> Params:
    """One lane's, so many times."""
    return {name: leaf.expand(lanes, *leaf.shape[1:]).contiguous() for name, leaf in drawer.items()}


def bounds(
    setting: Setting, found: Sequence[tuple[Drift, Snapshot]], device: torch.device, tell: Tell
) -> list[theory.Drift]:
    """What the drift lemmas allow for the same sums, with the problem's measured constants.

    The parallel lemma is about the mean over clients: it is taken S times. Where the learning rate is above the
    lemma's, the number comes with valid False and the reason.
    """
    algorithm = setting.algorithm.partition(":")[0]
    if algorithm not in theory.ALGORITHMS:
        known = " or ".join(theory.ALGORITHMS)
        raise BadInput(f"algorithm: there is no drift lemma for {algorithm!r}; {known} is right")
    if setting.epochs:
        raise BadInput(
            f"epochs: {setting.epochs}; the drift lemmas are for legs of K steps each, so local_steps is right"
        )
    objective = Objective(setting, device)
    needed = ["L", "mu", "sigma2", "zeta_star2", "A"] if objective.convex else ["L", "sigma2", "beta2", "zeta2", "A"]
    case, symbols = constants.symbols(constants.measure(setting, device, needed, tell=tell))
    if "A" not in symbols or "zeta" not in symbols:
        raise BadInput(
            f"weight_decay: {setting.weight_decay:g}; the lemma is about x*, and F has none; above 0 is right"
        )
    whole, first = objective.together(range(setting.clients)), objective.start()
    lowest = float(objective.losses(first, whole)) - symbols["A"]
    given = {name: symbols[name] for name in ("L", "sigma", "zeta", "beta") if name in symbols}
    times = 1 if algorithm == "sequential" else setting.participants
    result = []
    for _, at in found:
        x = objective.flat(at.state.model)
        place = {"gap": max(0.0, float(objective.losses(x, whole)) - lowest)}
        if case == "nonconvex":
            place = {"gradient": float(objective.gradients(x, whole).norm())}
        counts = {"K": setting.local_steps, "S": setting.participants, "eta": setting.lr}
        one = theory.drift_bound(algorithm, case, **given, **counts, **place, strict=False)
        parts = {name: times * value for name, value in one.terms.items()}
        result.append(one._replace(total=times * one.total, terms=parts))
    return result
