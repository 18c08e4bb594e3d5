"""What the store cannot tell of logistic regression: F at the averaged iterate. Its runs are trained once more."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from baton.constants import Objective, Tell, measure, symbols
from baton.errors import BadInput
from baton.setting import Setting
from baton.simulate.engine import Program, advance, start

if TYPE_CHECKING:
    from baton.report.bands import Array
    from baton.report.overlay import Known


class Replay:
    """Constants by baton.constants where F is convex; F(x) - F* at the average that the theorems speak of."""

    def __init__(self, device: torch.device, tell: Tell) -> None:
        self.device, self.tell = device, tell
        self.seen: dict[str, tuple[str, dict[str, float]]] = {}

    def know(self, settings: "Sequence[Setting]") -> "Known":
        """Each run starts at a point of its own, so D and A are of each."""
        found = [self._of(s, settings[0]) for s in settings]
        return found[0][0], [own for _, own in found]

    def _of(self, setting: Setting, first: Setting) -> tuple[str, dict[str, float]]:
        key = _key(setting)
        if key not in self.seen:
            objective = Objective(setting, self.device)
            if not (objective.linear or objective.quadratic):
                wanted = "baton bounds --case nonconvex --L X --sigma X --zeta X --beta X --A X"
                raise BadInput(f"study: model {setting.model!r} is not convex; its constants must be given: {wanted}")
            only = ("L", "mu", "sigma2", "zeta_star2", "D", "A") if setting is first else ("mu", "zeta_star2", "D", "A")
            found = measure(setting, self.device, only, setting.clients, points=1, rounds=1, tell=self.tell)
            case, own = symbols(found)
            if "D" not in own:
                raise BadInput(f"study: {setting.dataset}: {found.constants['D'].note}")
            self.seen[key] = case, {**self.seen.get(_key(first), (case, {}))[1], **own}
        return self.seen[key]

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
    same = {"lr": 1.0, "algorithm": "sequential", "participants": 1, "rounds": 1}
    return setting.model_copy(update=same).key
