"""The bounds of Theorems 1 and 2 at given constants, checked."""

from typing import Any, NamedTuple, Unpack

import numpy as np

from baton.theory import conditions
from baton.theory.rates import best
from baton.theory.symbols import TERMS, Number, Symbols, array, plain, read, together
from baton.theory.theorems import learning_rate, terms


class Result(NamedTuple):
    """A bound on E[F(x) - F*], nonconvex on E|grad F(x)|^2, x as in average.py; floats, or arrays of one shape."""

    total: Any
    terms: dict[str, Any]  # by TERMS
    eta_tilde: Any
    eta: Any
    valid: Any  # whether all conditions hold
    reasons: tuple[str, ...]  # those that do not

    def dominant(self) -> Any:
        """The name of the largest term, or an array of names."""
        names = np.array(TERMS)[np.argmax([self.terms[name] for name in TERMS], axis=0)]
        return str(names) if np.ndim(self.total) == 0 else names


def bound(
    algorithm: str,
    case: str,
    *,
    eta_tilde: Number | None = None,
    strict: bool = True,
    **symbols: Unpack[Symbols],
) -> Result:
    """Theorem 1 (sequential) or 2 (parallel), S of M, term by term; eta_tilde left out: the bound's minimiser.

    strict: a condition the theorem states and that does not hold is BadInput. Otherwise, and for the one that only the
    proof states (conditions.floor), the value comes with valid False and the reasons. Symbols that the case does not
    use are left aside.
    """
    p = read(algorithm, case, symbols)
    given = {} if eta_tilde is None else {"eta_tilde": array("eta_tilde", eta_tilde)}
    shape = together(p._asdict() | given)
    valid, reasons = conditions.check(conditions.of_problem(case, p), shape, strict)
    rate = given["eta_tilde"] if given else best(algorithm, case, p)
    rated, more = conditions.check(conditions.of_rate(algorithm, case, p, rate), shape, strict)
    parts = {name: plain(part, shape) for name, part in terms(algorithm, case, p, rate).items()}
    with np.errstate(all="ignore"):
        total = sum(parts.values())
    eta = learning_rate(algorithm, p, rate)
    return Result(
        total, parts, plain(rate, shape), plain(eta, shape), plain(valid & rated, shape), tuple(reasons + more)
    )
