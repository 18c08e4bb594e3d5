"""All constants of a setting: exact for quadratics, bounds and local values for logistic regression, else local."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.constants import optimum, quadratics, softmax
from baton.constants.blocks import Blocks
from baton.constants.found import Constant, Tell, silent
from baton.constants.local import local
from baton.constants.objective import Objective
from baton.constants.plan import Plan, jobs, plan, run, told
from baton.constants.sampled import Sampled
from baton.constants.view import Point, View
from baton.constants.work import GRADIENT, Work
from baton.errors import BadInput, nearest
from baton.notice import many, once
from baton.setting import Setting
from baton.simulate.arithmetic import cores
from baton.simulate.engine import Program, advance, first
from baton.simulate.memory import free

NAMES = ("L", "mu", "sigma2", "zeta_star2", "beta2", "zeta2", "delta", "D", "A")
CONVEX = ("mu", "zeta_star2", "D")  # there is none of these without convexity
OPTIMUM = ("zeta_star2", "D", "A")
ALONG = ("L", "sigma2", "beta2", "zeta2", "delta")  # have local values along a trajectory


class Measured(NamedTuple):
    """What was found. A name with _local holds at the points only; the others hold for every x."""

    setting: Setting
    problem: str  # quadratic, logistic regression or network
    constants: dict[str, Constant]
    points: list[Point]
    clients: int  # of M, looked at one by one
    optimum: Tensor | None = None  # x*, where it was looked for and is there
    sampled: str = ""  # what it was looked at by, where not all of it was


def measure(
    setting: Setting,
    device: torch.device,
    only: Sequence[str] = (),
    clients: int | None = None,
    points: int | None = None,
    rounds: int | None = None,
    tolerance: float = 1e-3,
    tell: Tell = silent,
    samples: int | None = None,
    memory: int | None = None,
    say: Callable[[str], None] = once,
) -> Measured:
    """only: some of NAMES; all that there are if left out.

    clients: at most so many, drawn at random, are looked at one by one. points: from the first `rounds` of the
    setting's own run. samples: of a network, for F, its gradient and its Hessians in float32; 0: all of them in
    float64, to `tolerance` of eigenvalues. What is left out is chosen by what all of it would take (`plan`), and said.
    memory: bytes that samples and vectors may take at once.
    """
    _check(only, clients_sampled=clients, points=points, trajectory=rounds)
    objective = Objective(setting, device)
    objective.room = min(objective.room, (memory or 8 * objective.room) // 8)
    wanted = [name for name in NAMES if name in (only or NAMES)]
    if objective.quadratic:
        plan(objective, wanted, samples, clients, points, rounds)
        return Measured(setting, "quadratic", _chosen(quadratics.exact(objective), wanted), [], setting.clients)
    if not objective.linear:
        wanted = _without_convexity(setting, wanted, only)
    look = plan(objective, wanted, samples, clients, points, rounds)
    chosen = _sample(setting, look.clients, device)
    along = bool(set(ALONG) & set(wanted))
    each = jobs(objective, look, wanted) if along else {}
    begin = GRADIENT * min(look.samples, int(objective.sizes.sum())) if look.samples else 0
    short = run(objective, look.rounds) if along else 0.0
    work = Work(tell, begin + short + look.points * sum(each.values()))
    objective.spend = work.spend
    with ExitStack() as last:
        view: View | Sampled
        if look.samples:
            blocks = Blocks(objective, memory or free(device), work.spend)
            last.callback(blocks.close)
            view = Sampled(objective, look, chosen, blocks)
            how = told(objective, look)
            where = f"{many(look.points, 'point')} of {many(look.rounds, 'round')}"
            say(f"{how}; {where}: {view.expects(work.total)}")
        else:
            view = View(objective, chosen, tolerance)
            how = ""
        at = trajectory(objective, setting, look, work, short) if along else []
        work.total -= (look.points - len(at)) * sum(each.values())  # points may fall together, or the run diverge
        return _looked(setting, view, at, wanted, each, work, begin, tell)._replace(sampled=how)


def _looked(
    setting: Setting,
    view: View | Sampled,
    at: list[tuple[str, Tensor]],
    wanted: list[str],
    each: Mapping[str, float],
    work: Work,
    begin: float,
    tell: Tell,
) -> Measured:
    """What there is of a problem that is no quadratic."""
    objective, found, star = view.objective, dict[str, Constant](), None
    if isinstance(view, View) and objective.linear:
        found = softmax.bounds(objective)
        if set(OPTIMUM) & set(wanted):
            best = optimum.minimum(view, tell)
            found |= optimum.at(view, best, found["L"].value or 0.0)
            star = best.x if best.attained else None
            at += [("x*", best.x)] if at and best.attained else []
            work.total += sum(each.values())
    elif "A" in wanted:
        with work.at("F at round 0", begin):
            found = optimum.gap(view)
    here, seen = local(view, at, each, work)
    found |= here
    for name in ("L", "sigma2", "delta"):  # the least that would do for all x lies between the two
        if {name, f"{name}_local"} <= set(found):
            found[name] = found[name]._replace(low=found[f"{name}_local"].value, high=found[name].value)
    problem = "logistic regression" if objective.linear else "network"
    return Measured(setting, problem, _chosen(found, wanted), seen, len(view.chosen), star)


def trajectory(
    objective: Objective, setting: Setting, look: Plan, work: Work, expected: float
) -> list[tuple[str, Tensor]]:
    """Points of the setting's own run, evenly over its first rounds; those before it diverges, if it does.

    It is in float64 unless the problem is sampled. Nothing is evaluated: what that tells is not asked for.
    """
    rounds = min(look.rounds, setting.rounds)
    never = {"rounds": rounds + 1, "eval_every": rounds + 1}
    short = Setting(**{**(setting if look.samples else objective.setting).model_dump(), **never})
    program = Program([short], objective.device, threads=cores() if look.samples else 1)
    wanted = {round(i * rounds / max(1, look.points - 1)) for i in range(look.points)}
    found = [("round 0", objective.start())]
    with work.at("a short run", expected):
        for at in islice(advance(program, first(program)), rounds):
            work.spend(expected / rounds)
            if int(at.diverged[0]) >= 0:
                break
            if at.round in wanted:
                found.append((f"round {at.round}", objective.flat(at.state.model)))
    return found


def _check(only: Sequence[str], **counts: int | None) -> None:
    for name in only:
        if name not in NAMES:
            raise BadInput(f"only: no constant {name!r}; {nearest(name, NAMES)}")
    for option, value in counts.items():
        if value is not None and value < 1:
            raise BadInput(f"{option}: {value}; at least 1 is right")


def _without_convexity(setting: Setting, wanted: list[str], only: Sequence[str]) -> list[str]:
    """What there is for a network; what was asked for by name and cannot be is refused."""
    rest = [name for name in wanted if name not in CONVEX]
    refused = [name for name in only if name in CONVEX]
    if refused:
        right = ", ".join(name for name in NAMES if name not in CONVEX)
        raise BadInput(
            f"only: {refused[0]!r} is for convex problems, and model {setting.model!r} is none; known: {right}"
        )
    return rest


def _chosen(found: dict[str, Constant], wanted: Sequence[str]) -> dict[str, Constant]:
    """In the order of NAMES, each followed by what belongs to it: sigma2, sigma2_local, ..."""
    kin = {key: key.replace("_local", "").replace("_mean", "") for key in found}
    return {key: found[key] for name in wanted for key in sorted(found) if kin[key] == name}


def _sample(setting: Setting, count: int, device: torch.device) -> list[int]:
    """Which clients are looked at: all, or `count` drawn by the setting's seed."""
    if count >= setting.clients:
        return list(range(setting.clients))
    key = rng.bits(torch.tensor([setting.seed], device=device), rng.EVALUATE, -1)  # no round has this number
    return sorted(rng.choose(key, setting.clients, count)[0].tolist())
