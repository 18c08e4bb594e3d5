"""All constants of a setting: exact for quadratics, bounds and local values for logistic regression, else local."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from baton import rng
from baton.constants import optimum, quadratics, softmax
from baton.constants.found import Constant, Tell, silent
from baton.constants.local import Point, View, local
from baton.constants.objective import Objective
from baton.errors import BadInput, nearest
from baton.setting import Setting
from baton.simulate.engine import Program, advance, start

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


def measure(
    setting: Setting,
    device: torch.device,
    only: Sequence[str] = (),
    clients: int = 20,
    points: int = 4,
    rounds: int = 20,
    tolerance: float = 1e-3,
    tell: Tell = silent,
) -> Measured:
    """only: some of NAMES; all that there are if left out.

    clients: at most so many, drawn at random, are looked at one by one; F itself is always over all of them. points:
    from the first `rounds` of the setting's own run. tolerance: of eigenvalues, relative.
    """
    _check(only, clients_sampled=clients, points=points, trajectory=rounds)
    objective = Objective(setting, device)
    wanted = [name for name in NAMES if name in (only or NAMES)]
    if objective.quadratic:
        return Measured(setting, "quadratic", _chosen(quadratics.exact(objective), wanted), [], setting.clients)
    if not objective.linear:
        wanted = _without_convexity(setting, wanted, only)
    view = View(objective, _sample(setting, clients, device), tolerance)
    at = trajectory(objective, points, rounds, tell) if set(ALONG) & set(wanted) else []
    found: dict[str, Constant] = {}
    star = None
    if objective.linear:
        found = softmax.bounds(objective)
        if set(OPTIMUM) & set(wanted):
            best = optimum.minimum(view, tell)
            found |= optimum.at(view, best, found["L"].value or 0.0)
            star = best.x if best.attained else None
            at += [("x*", best.x)] if at and best.attained else []
    elif "A" in wanted:
        found = optimum.gap(view)
    here, seen = local(view, at, wanted, tell)
    found |= here
    for name in ("L", "sigma2", "delta"):  # the least that would do for all x lies between the two
        if {name, f"{name}_local"} <= set(found):
            found[name] = found[name]._replace(low=found[f"{name}_local"].value, high=found[name].value)
    problem = "logistic regression" if objective.linear else "network"
    return Measured(setting, problem, _chosen(found, wanted), seen, len(view.chosen), star)


def trajectory(objective: Objective, points: int, rounds: int, tell: Tell) -> list[tuple[str, Tensor]]:
    """Points of the setting's own run, evenly over its first rounds; those before it diverges, if it does."""
    rounds = min(rounds, objective.setting.rounds)
    short = Setting(**{**objective.setting.model_dump(), "rounds": rounds, "eval_every": rounds})
    program = Program([short], objective.device)
    wanted = {round(i * rounds / max(1, points - 1)) for i in range(points)}
    found = [("round 0", objective.start())]
    for at in advance(program, start(program)):
        tell("a short run", at.round, rounds)
        if int(at.diverged[0]) >= 0:
            break
        if at.round in wanted:
            found.append((f"round {at.round}", objective.flat(at.state.model)))
    return found


def _check(only: Sequence[str], **counts: int) -> None:
    for name in only:
        if name not in NAMES:
            raise BadInput(f"only: no constant {name!r}; {nearest(name, NAMES)}")
    for option, value in counts.items():
        if value < 1:
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
