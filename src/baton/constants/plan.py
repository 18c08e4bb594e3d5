"""How much of a problem is looked at: all of it, or, of a network where that would take hours, samples of it."""

from collections.abc import Sequence
from typing import NamedTuple

from baton.constants.noise import DRAWS, keyed
from baton.constants.objective import Objective
from baton.constants.work import GRADIENT, PRODUCT
from baton.errors import BadInput

CLIENTS, POINTS, ROUNDS, STEPS, STARTS = 20, 4, 20, 16, 3  # of all of a problem; steps as they are expected
WHOLE = 1e14  # operations that all of it may take, unless asked for: about an hour of two cores in float64

SAMPLES = 1024  # for F and its gradient
SHARE = 8  # of them a client has at most one in so many, and never fewer than LEAST
LEAST = 128
FEW = 4  # clients whose Hessians and minibatches are looked at
FEW_POINTS, FEW_ROUNDS, FEW_DRAWS, FEW_STEPS = 2, 4, 16, 10
TOLERANCE = 1e-2  # of eigenvalues, relative


class Plan(NamedTuple):
    """What is looked at."""

    samples: int  # 0: all, in float64
    clients: int  # for gradients, one by one
    few: int  # of these for L, delta and sigma^2
    points: int
    rounds: int  # of the run that the points lie on

    @property
    def most(self) -> int:
        """Samples of one client."""
        return max(LEAST, self.samples // SHARE)


def plan(
    objective: Objective,
    wanted: Sequence[str],
    samples: int | None,
    clients: int | None,
    points: int | None,
    rounds: int | None,
) -> Plan:
    """What was asked for, the rest filled in; samples None: all unless that is more than WHOLE, 0: all in any case."""
    network = not objective.convex
    if samples and not network:
        raise BadInput(f"samples: {samples}; only a network's F is sampled: leave it out")
    whole = Plan(0, clients or CLIENTS, clients or CLIENTS, points or POINTS, rounds or ROUNDS)
    passes = whole.points * sum(jobs(objective, whole, wanted).values()) if network and samples is None else 0
    if not samples and (not passes or passes * objective.net.flops() <= WHOLE):
        return whole
    return Plan(samples or SAMPLES, clients or CLIENTS, clients or FEW, points or FEW_POINTS, rounds or FEW_ROUNDS)


def named(wanted: Sequence[str]) -> list[str]:
    """What is done at each point, in this order."""
    return [name for name in ("points", "L", "delta", "sigma2") if name in wanted or name == "points"]


def jobs(objective: Objective, plan: Plan, wanted: Sequence[str]) -> dict[str, float]:
    """Forward passes that each kind of job takes at one point, about."""
    o, s = objective, objective.setting
    clients, few = min(plan.clients, o.clients), min(plan.few, o.clients)
    all_of_it = int(o.sizes.sum())
    held = all_of_it / o.clients
    seen = min(held, plan.most) if plan.samples else held
    drawn = FEW_DRAWS if plan.samples else DRAWS
    batches = plan.samples or keyed(o)
    each = {
        "points": GRADIENT * (min(plan.samples, all_of_it) + clients * seen)
        if plan.samples
        else (1 + GRADIENT) * all_of_it + GRADIENT * clients * held,
        "sigma2": GRADIENT * few * (drawn * s.batch_size if batches else held),
    }
    if plan.samples:
        each["L"] = few * seen * (GRADIENT + FEW_STEPS * PRODUCT)
        each["delta"] = few * seen * (GRADIENT + few * PRODUCT)
        if "L" not in wanted:
            each["delta"] += each["L"]  # whose vectors it begins from
    else:
        each["L"] = few * held * STARTS * STEPS * (GRADIENT + PRODUCT)
        each["delta"] = each["L"] * (1 + few)  # H is applied to each client's vectors
    return {name: each[name] for name in named(wanted)}


def run(objective: Objective, rounds: int) -> float:
    """Forward passes of the run that the points lie on, about."""
    s = objective.setting
    held = int(objective.sizes.sum()) / objective.clients
    a_leg = s.epochs * held if s.epochs else s.local_steps * s.batch_size
    return float(GRADIENT * min(rounds, s.rounds) * s.participants * a_leg)


def told(objective: Objective, plan: Plan) -> str:
    """What a sampled problem is looked at by; nothing where all of it is."""
    if not plan.samples:
        return ""
    o, every = objective, int(objective.sizes.sum())
    over = "all" if every <= plan.samples else f"{plan.samples:,} of"
    parts = [
        f"F and its gradient over {over} {every:,} samples",
        f"gradients of {min(plan.clients, o.clients)} and Hessians and minibatches of {min(plan.few, o.clients)} of "
        f"{o.clients:,} clients",
    ]
    largest = int(o.sizes.max())
    if largest > plan.most:
        parts.append(f"at most {plan.most:,} samples of a client, of which L and delta are larger on average")
    return ", ".join(parts) + f"; products in float32, eigenvalues to {TOLERANCE:g} or {FEW_STEPS} steps"
