"""How much of a problem is looked at: all of it, or, of a network where that would take hours, samples of it."""

from collections.abc import Sequence
from typing import NamedTuple

from baton.constants.noise import DRAWS, keyed
from baton.constants.objective import Objective
from baton.constants.work import GRADIENT, PRODUCT
from baton.errors import BadInput

CLIENTS, POINTS, ROUNDS, STEPS, STARTS = 20, 4, 20, 16, 3  # of all of a problem; steps as they are expected
WHOLE = 1e14  # operations that all of it may take, unless asked for: about an hour of two cores in float64

REPLICATES, FEWEST = 8, 4  # of the gradient of F, whose squared length needs to know how sure it is
SHARE, LEAST = 16, 128  # one client has at most one in SHARE of F's samples, and never fewer than LEAST
FEW_DRAWS, FEW_STEPS = 16, 8
TOLERANCE = 2e-2  # of eigenvalues, relative


class Level(NamedTuple):
    """How much is looked at where not all of it is: the first level that takes no more than BUDGET, or the last."""

    samples: int  # for F and its gradient
    few: int  # clients whose Hessians and minibatches are looked at
    points: int
    rounds: int


LEVELS = (Level(32_000, 20, 4, 20), Level(8_000, 8, 4, 20), Level(2_000, 4, 2, 4))
BUDGET = 2e13  # operations


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
    found = whole
    for level in LEVELS:
        seen = samples or level.samples, clients or CLIENTS, clients or level.few
        found = Plan(*seen, points or level.points, rounds or level.rounds)
        passes = found.points * sum(jobs(objective, found, wanted).values())
        if passes * objective.net.flops() <= BUDGET:
            break
    return found


def replicates(samples: int, clients: int) -> tuple[int, int, bool]:
    """How many replicates of how many samples each, and whether their clients are drawn.

    Each has as many samples of every client, if that leaves enough replicates: then how clients differ does not blur
    their mean. Otherwise clients are drawn too.
    """
    rows = min(REPLICATES, samples // clients)
    if rows < FEWEST:
        return REPLICATES, -(-samples // REPLICATES), True
    return rows, samples // (rows * clients) * clients, False


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
    rows, each, _ = replicates(plan.samples, o.clients)
    over = "all" if every <= plan.samples else f"{rows * each:,} of"
    parts = [
        f"F and its gradient over {over} {every:,} samples",
        f"gradients of {min(plan.clients, o.clients)} and Hessians and minibatches of {min(plan.few, o.clients)} of "
        f"{o.clients:,} clients",
    ]
    largest = int(o.sizes.max())
    if largest > plan.most:
        parts.append(f"at most {plan.most:,} samples of a client, of which L and delta are larger on average")
    return ", ".join(parts) + f"; products in float32, eigenvalues to {TOLERANCE:g} or {FEW_STEPS} steps"
