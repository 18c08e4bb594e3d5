"""zeta_*^2, D and A of a convex problem, at the minimiser of F."""

from torch import Tensor

from baton.constants.found import BOUND, ESTIMATE, UNDEFINED, Constant, Tell, mean
from baton.constants.minimise import Minimum, minimise
from baton.constants.regression import Regression
from baton.constants.sampled import Sampled
from baton.constants.view import View
from baton.datasets.base import cross_entropy


def minimum(view: View, tell: Tell) -> Minimum:
    """Of F, from where the run begins."""
    o, steps = Regression(view.objective, view.whole), 0

    def product(x: Tensor, v: Tensor) -> Tensor:
        nonlocal steps
        steps += 1
        tell("the optimum", steps, 0)
        return o.product(x, v)

    def hopeless(x: Tensor) -> bool:
        """Data that can be separated: the longer x, the smaller the loss."""
        return not view.objective.decay and o.told_apart(x)

    return minimise(o.value, o.gradient, product, view.objective.start(), o.precondition, hopeless)


def at(view: View, best: Minimum, L: float) -> dict[str, Constant]:
    """With intervals where F is mu-strongly convex: |x - x*| <= |grad F| / mu, and each F_m is L-smooth."""
    if not best.attained:
        why = "F has no minimiser that could be found; a weight_decay above 0 gives one"
        return {name: Constant(None, UNDEFINED, note=why) for name in ("zeta_star2", "D")} | gap(view)
    mu, first = view.objective.decay, view.objective.start()
    slope = float(view.gradient(best.x).norm())
    off = slope / mu if mu else float("inf")
    square, error = mean(view.gradients(best.x).square().sum(1), view.objective.clients)
    distance, fall = float((first - best.x).norm()), view.loss(first) - best.value
    note = f"at |grad F| = {slope:.1e}"

    def found(value: float, low: float, high: float, error: float | None = None) -> Constant:
        low_, high_ = (max(0.0, low), high) if mu else (None, None)
        return Constant(value, ESTIMATE, low_, high_, error, note)

    return {
        "zeta_star2": found(square, max(0.0, square**0.5 - L * off) ** 2, (square**0.5 + L * off) ** 2, error),
        "D": found(distance, distance - off, distance + off),
        "A": found(fall, fall, fall + slope * off / 2),
    }


def gap(view: View | Sampled) -> dict[str, Constant]:
    """A where F* is not known: cross-entropy and weight decay are never below 0."""
    if view.objective.data.loss is not cross_entropy:
        return {"A": Constant(None, UNDEFINED, note="F* is not known")}
    value, error = view.level(view.objective.start())
    return {"A": Constant(value, BOUND, error=error, note="F(x0), since F* >= 0")}
