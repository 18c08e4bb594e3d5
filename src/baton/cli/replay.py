"""What the store cannot tell of logistic regression: F at the averaged iterate. Its runs are trained once more."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from baton.constants import Objective, Tell, measure, symbols
from baton.constants.objective import Group
from baton.errors import BadInput
from baton.setting import Setting, changed
from baton.simulate.engine import Program, advance, start

if TYPE_CHECKING:
    from baton.report.bands import Array
    from baton.report.overlay import Known


class Solved(NamedTuple):
    """A problem whose constants and optimum are known."""

    case: str
    symbols: dict[str, float]  # D and A: of the seed it was solved from
    objective: Objective
    whole: Group  # F
    optimum: torch.Tensor  # x*
    least: float  # F*

    def start(self, seed: int) -> dict[str, float]:
        """D and A of the run with this seed."""
        x = self.objective.flat(self.objective.net.init([seed]))
        fall = float(self.objective.losses(x, self.whole)) - self.least
        return {"D": float((x - self.optimum).norm()), "A": fall}


class Replay:
    """Constants by baton.constants where F is convex; F(x) - F* at the average that the theorems speak of."""

    def __init__(self, device: torch.device, tell: Tell) -> None:
        self.device, self.tell = device, tell
        self.seen: dict[str, Solved] = {}

    def know(self, settings: "Sequence[Setting]") -> "Known":
        """The problem is one for all seeds; each run starts at a point of its own, so D and A are of each."""
        key = _key(settings[0])
        if key not in self.seen:
            self.seen[key] = self._solved(settings[0])
        solved = self.seen[key]
        return solved.case, [solved.symbols | solved.start(s.seed) for s in settings]

    def _solved(self, setting: Setting) -> "Solved":
        objective = Objective(setting, self.device)
        if not objective.linear:
            wanted = "baton bounds --case nonconvex --L X --sigma X --zeta X --beta X --A X"
            raise BadInput(f"study: model {setting.model!r} is not convex; its constants must be given: {wanted}")
        only = ("L", "mu", "sigma2", "zeta_star2", "D", "A")
        found = measure(setting, self.device, only, setting.clients, points=1, rounds=1, tell=self.tell)
        case, own = symbols(found)
        if found.optimum is None:
            raise BadInput(f"study: {setting.dataset}: {found.constants['D'].note}")
        whole = objective.together(range(objective.clients))
        return Solved(case, own, objective, whole, found.optimum, float(objective.losses(found.optimum, whole)))

    def measured(self, settings: "Sequence[Setting]", known: "Known", eta_tilde: float, rounds: "Array") -> "Array":
        """F(average) - F* of each run after these rounds, [runs, rounds]."""
        case, each = known
        program = Program(settings, self.device)
        keep = 1 - each[0].get("mu", 0.0) * eta_tilde / 2 if case == "strongly_convex" else 1.0
        begin = start(program)
        total, weight = begin.state.model, 1.0
        objective = Objective(settings[0], self.device)
        whole = objective.together(range(objective.clients))
        first = [objective.flat(total, lane) for lane in range(len(settings))]
        least = [float(objective.losses(x, whole)) - own["A"] for x, own in zip(first, each, strict=True)]
        found: list[list[float]] = []
        wanted = set(rounds.astype(int).tolist())
        for at in advance(program, begin):
            self.tell("the run again", at.round, settings[0].rounds)
            x = at.state.model
            total, weight = {name: keep * total[name] + leaf for name, leaf in x.items()}, keep * weight + 1
            if at.round in wanted:
                mean: Any = {name: leaf / weight for name, leaf in total.items()}
                values = [float(objective.losses(objective.flat(mean, lane), whole)) for lane in range(len(settings))]
                found.append([value - low for value, low in zip(values, least, strict=True)])
        return np.array(found).T


def _key(setting: Setting) -> str:
    """What the constants depend on."""
    same = {"lr": 1.0, "algorithm": "sequential", "participants": 1, "rounds": 1, "seed": 0}
    return changed(setting, **same).key
