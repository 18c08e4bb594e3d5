"""Measured constants as the letters of baton.theory."""

from baton.constants.found import Constant
from baton.constants.measure import Measured

LETTERS = {"L": ("L", 1.0), "mu": ("mu", 1.0), "sigma": ("sigma2", 0.5), "D": ("D", 1.0), "A": ("A", 1.0)}


def symbols(measured: Measured) -> tuple[str, dict[str, float]]:
    """(case, {letter: value}): what holds for all x where it is known, else the local estimate.

    zeta is zeta_* in the convex cases; a letter that is not defined is left out.
    """
    found = measured.constants
    if measured.problem == "network":
        case, letters = "nonconvex", {**LETTERS, "zeta": ("zeta2", 0.5), "beta": ("beta2", 0.5)}
    else:
        mu = found["mu"].value if "mu" in found else None
        case, letters = "strongly_convex" if mu else "convex", {**LETTERS, "zeta": ("zeta_star2", 0.5)}
    values = {letter: (_value(found, name), power) for letter, (name, power) in letters.items()}
    return case, {letter: value**power for letter, (value, power) in values.items() if value is not None}


def _value(found: dict[str, Constant], name: str) -> float | None:
    for key in (name, f"{name}_local"):
        if key in found and found[key].value is not None:
            return found[key].value
    return None
