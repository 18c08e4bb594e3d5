"""Where the bounds of Theorems 1 and 2 cross over one symbol, both at their least or at one effective rate."""

from typing import Any, NamedTuple

import numpy as np

from baton.errors import BadInput
from baton.theory.bounds import bound
from baton.theory.symbols import ALGORITHMS, Floats, Number, Symbols, check_name

OVER = {"K": (1, 1000), "R": (1, 100_000), "S": (1, 1000), "M": (2, 1000), "zeta": (1e-3, 1e3)}  # symbol -> its range
POINTS = 400  # of a curve, at most; two crossings between neighbours are not seen
EQUAL = 1e-12  # bounds that differ by less, relative to each other, are the same


class Crossing(NamedTuple):
    """A place where the smaller bound changes hands."""

    at: float  # of a count: the first at which the other one is smaller
    before: str  # whose bound is smaller below it
    after: str


class Curves(NamedTuple):
    """The bounds of both algorithms over one symbol, and where they cross."""

    over: str
    values: Floats  # [points]
    totals: dict[str, Floats]  # algorithm -> [points]; nan where it is no bound
    crossings: list[Crossing]
    reasons: tuple[str, ...]  # why there is no bound at some of them

    def smaller(self, place: int) -> str:
        """Whose bound is smaller there; "" where they are equal or one is missing."""
        return _smaller(*(float(self.totals[name][place]) for name in ALGORITHMS))

    def factor(self, place: int) -> float:
        """The larger bound over the smaller one."""
        both = [float(self.totals[name][place]) for name in ALGORITHMS]
        return max(both) / min(both) if min(both) > 0 else float("nan")


def crossover(
    case: str,
    over: str,
    least: float | None = None,
    most: float | None = None,
    *,
    eta_tilde: Number | None = None,
    **symbols: Any,
) -> Curves:
    """Both bounds over K, R, S, M or zeta between two values, and every place where the smaller one changes hands.

    Counts are looked at as counts; zeta on a logarithmic scale. Where a theorem's conditions fail there is no
    bound, and nothing crosses. S is M where it is not given, also while M varies.
    """
    check_name("over", over, tuple(OVER))
    low, high = _range(over, least, most, symbols)
    values = np.geomspace(low, high, POINTS)
    if over != "zeta":
        values = np.unique(values.round())
    found, reasons = _totals(case, values, over, eta_tilde, symbols)
    if not (np.isfinite(found["sequential"]) & np.isfinite(found["parallel"])).any():
        raise BadInput(f"over: no bound for any {over} from {low:g} to {high:g}: {reasons[0]}")
    sides = [_smaller(*pair) for pair in zip(found["sequential"], found["parallel"], strict=True)]
    crossings = []
    last, place = "", 0
    for i, side in enumerate(sides):
        if side and last and side != last:
            at = _between(case, over, float(values[place]), float(values[i]), last, eta_tilde, symbols)
            crossings.append(Crossing(at, last, side))
        if side:
            last, place = side, i
    return Curves(over, values, found, crossings, reasons)


def _range(over: str, least: float | None, most: float | None, symbols: dict[str, Any]) -> tuple[float, float]:
    """The ends that were given, or those that are usual for the symbol."""
    usual = OVER[over]
    low = float(usual[0] if least is None else least)
    high = float(usual[1] if most is None else most)
    if over == "S":
        high = min(high, float(symbols["M"]))
    if over == "M" and symbols.get("S") is not None:
        low, high = max(low, float(symbols["S"])), max(high, 10.0 * float(symbols["S"]))
    if not 0 < low < high < float("inf"):
        raise BadInput(f"over: {over} from {low:g} to {high:g}; two numbers above 0, the smaller one first, are right")
    return low, high


def _totals(
    case: str, values: Floats, over: str, eta_tilde: Number | None, symbols: dict[str, Any]
) -> tuple[dict[str, Floats], tuple[str, ...]]:
    given: Symbols = {**symbols, over: values}  # type: ignore[typeddict-item]
    found = {name: bound(name, case, eta_tilde=eta_tilde, strict=False, **given) for name in ALGORITHMS}
    totals = {name: np.where(one.valid, one.total, np.nan) for name, one in found.items()}
    return totals, tuple(dict.fromkeys(reason for one in found.values() for reason in one.reasons))


def _smaller(sequential: float, parallel: float) -> str:
    if not (np.isfinite(sequential) and np.isfinite(parallel)) or abs(sequential - parallel) <= EQUAL * sequential:
        return ""
    return "sequential" if sequential < parallel else "parallel"


def _between(
    case: str, over: str, low: float, high: float, before: str, eta_tilde: Number | None, symbols: dict[str, Any]
) -> float:
    """By bisection: the first count at which the other is smaller; of zeta the place itself."""
    while (high - low > 1) if over != "zeta" else (high / low > 1 + 1e-9):
        middle = (low + high) // 2 if over != "zeta" else (low * high) ** 0.5
        found, _ = _totals(case, np.array([middle]), over, eta_tilde, symbols)
        still = _smaller(float(found["sequential"][0]), float(found["parallel"][0])) in (before, "")
        low, high = (middle, high) if still else (low, middle)
    return high
