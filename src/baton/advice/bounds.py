"""The two algorithms' bounds at a problem's measured constants: they explain, they do not decide."""

from typing import Any, NamedTuple

from baton.advice.probe import SIDES
from baton.constants import UNDEFINED, Measured, symbols
from baton.errors import BadInput
from baton.theory import Result, bound, useful_steps

NEEDED = {  # constants by whether the problem is convex
    True: ("L", "mu", "sigma2", "zeta_star2", "D"),
    False: ("L", "sigma2", "beta2", "zeta2", "A"),
}


class Bounds(NamedTuple):
    """Theorems 1 and 2 at the rates that make them least."""

    case: str
    letters: dict[str, float]
    local: list[str]  # constants that were estimated at points of one run only
    found: dict[str, Result]  # by algorithm
    useful_steps: dict[str, float]  # by algorithm: K beyond which local steps lower only smaller terms

    @property
    def smaller(self) -> str:
        """Whose bound is."""
        return min(self.found, key=lambda side: float(self.found[side].total))

    @property
    def trivial(self) -> float:
        """What smoothness alone promises of the first model: a bound that is no smaller says nothing of training.

        F(x0) - F* <= L D^2 / 2, and |grad F(x0)|^2 <= 2 L A; infinite where a letter is not known.
        """
        known = self.letters
        if self.case == "nonconvex":
            return 2 * known["L"] * known["A"] if {"L", "A"} <= known.keys() else float("inf")
        return known["L"] * known["D"] ** 2 / 2 if {"L", "D"} <= known.keys() else float("inf")

    @property
    def vacuous(self) -> list[str]:
        """Whose bound says nothing."""
        return [side for side, result in self.found.items() if not float(result.total) < self.trivial]

    @property
    def factor(self) -> float:
        """The larger bound over the smaller."""
        totals = [float(result.total) for result in self.found.values()]
        return max(totals) / min(totals) if min(totals) > 0 else float("inf" if max(totals) > 0 else 1)

    @property
    def apart(self) -> str:
        """The term in which the two differ most."""
        one, other = (self.found[side].terms for side in SIDES)
        return max(one, key=lambda name: abs(float(one[name]) - float(other[name])))


def bounds(measured: Measured) -> Bounds:
    """Both at the setting's M, S, K and R; BadInput where a constant is not defined."""
    s = measured.setting
    if s.epochs:
        raise BadInput(f"epochs: {s.epochs}; the theorems are for legs of K steps each")
    for name, constant in measured.constants.items():
        if constant.kind == UNDEFINED:
            raise BadInput(f"{name} is not defined: {constant.note}")
    case, letters = symbols(measured)
    given: dict[str, Any] = {**letters, "M": s.clients, "S": s.participants, "K": s.local_steps, "R": s.rounds}
    found = {side: bound(side, case, strict=False, **given) for side in SIDES}
    steps = {side: float(useful_steps(side, case, **given)) for side in SIDES}
    return Bounds(case, letters, _local(measured), found, steps)


def _local(measured: Measured) -> list[str]:
    """Constants whose value is a local estimate, there being none for all x."""
    known = {name for name, constant in measured.constants.items() if constant.value is not None}
    names = dict.fromkeys((*NEEDED[True], *NEEDED[False]))
    return [name for name in names if name not in known and f"{name}_local" in known]
