"""Table 1: upper bounds of PFL and SFL, constants and logarithms left out, SGD-RR's beside them; as numbers too."""

from typing import Any, NamedTuple

import numpy as np

from baton.errors import BadInput
from baton.paper import table as paper_table
from baton.theory.corollaries import orders
from baton.theory.symbols import ALGORITHMS, CASES, Number, array, check_name

SPOKEN = {"strongly convex": "strongly_convex", "convex": "convex", "non-convex": "nonconvex"}
NAMES = {
    "karimireddy2020scaffold": "Karimireddy et al. 2020",
    "koloskova2020unified": "Koloskova et al. 2020",
    "mishchenko2020random": "Mishchenko et al. 2020",
    "cho2023convergence": "Cho et al. 2023",
    "malinovsky2023federated": "Malinovsky et al. 2023",
}
_METHODS = {"parallel": "PFL", "sequential": "SFL", "sgd-rr": "SGD-RR"}
_ORDER = ("noise", "drift_noise", "drift_heterogeneity", "optimisation")  # the table's
_SHUFFLED = {  # Corollaries 1, 2 and 3 of mishchenko2020random, as the paper quotes them
    "strongly_convex": r"\frac{L}{\mu}\left(\frac{L\zeta_\ast^2}{\mu^2MR^2}"
    r" + \mu D^2 \exp\left(\frac{-\mu MR}{L}\right)\right)",
    "convex": r"\frac{\left(L\zeta_\ast^2D^4\right)^{1/3}}{M^{1/3}R^{2/3}} + \frac{LD^2}{R}",
    "nonconvex": r"\frac{\left(L^2\zeta^2A^2\right)^{1/3}}{M^{1/3}R^{2/3}} + \frac{LA}{R}",
}
_NOTE = "one full gradient step at each client: sequential with K = 1 and sigma = 0"


class Row(NamedTuple):
    """One line of the table."""

    case: str
    method: str  # sequential, parallel, sgd-rr
    source: str
    formula: str  # LaTeX
    assumptions: str  # the footnotes', in short
    terms: dict[str, Any]
    total: Any
    beside: bool = False  # of related work: not a row of Table 1

    def label(self) -> str:
        """SFL (Theorem 1)."""
        return f"{_METHODS[self.method]} ({', '.join(NAMES.get(s, s) for s in self.source.split(', '))})"


def table(
    case: str | None = None,
    algorithm: str | None = None,
    *,
    sigma_star: Number | None = None,
    zeta_star: Number | None = None,
    strict: bool = True,
    **symbols: Any,
) -> list[Row]:
    """Table 1 at S = M and beta = 0, all rows or one case's or one algorithm's; SGD-RR counts as sequential.

    zeta_star (in the convex cases of Theorems 1 and 2 and of koloskova2020unified) and sigma_star (in those of the
    latter) are zeta and sigma unless given.
    """
    for field, word, known in (("case", case, CASES), ("algorithm", algorithm, ALGORITHMS)):
        if word is not None:
            check_name(field, word, known)
    for symbol, text, right in (("S", "S = M", symbols.get("M")), ("beta", "beta = 0", 0)):
        value = symbols.pop(symbol, None)
        if not _equal(symbol, value, right):
            raise BadInput(f"{symbol}: {value}; Table 1 is for {text}, leave it out")
    star = {"sigma": symbols.get("sigma") if sigma_star is None else sigma_star}
    star |= {"zeta": symbols.get("zeta") if zeta_star is None else zeta_star}
    found = []
    for row in paper_table("bounds"):
        name, method, source = SPOKEN[row["case"]], row["method"], row["source"]
        if case in (None, name) and algorithm in (None, method):
            given = symbols | _measures(name, source, star)
            terms = orders(method, name, strict=strict, **given)
            if (name, source) == ("strongly_convex", "koloskova2020unified"):
                # L K D^2 exp(-mu R/L)
                terms["optimisation"] = terms["optimisation"] * array("K", symbols["K"]) * symbols["L"] / symbols["mu"]
            found.append(_row(name, method, source, row["upper_bound"], row["assumptions"] or "", terms))
    for name, formula in _SHUFFLED.items():
        if case in (None, name) and algorithm in (None, "sequential"):
            given = symbols | _measures(name, "", star)
            found.append(_row(name, "sgd-rr", "mishchenko2020random", formula, _NOTE, _shuffled(name, strict, given)))
    return sorted(found, key=lambda row: CASES.index(row.case))


def _measures(case: str, source: str, star: dict[str, Any]) -> dict[str, Any]:
    """Which sigma and zeta a row means."""
    if case == "nonconvex" or source == "karimireddy2020scaffold":
        return {}
    return star if source == "koloskova2020unified" else {"zeta": star["zeta"]}


def _shuffled(case: str, strict: bool, given: dict[str, Any]) -> dict[str, Any]:
    """SGD-RR: SFL's orders without noise; strongly convex times L/mu, with exp(-mu M R/L)."""
    terms = orders("sequential", case, strict=strict, **given)
    terms |= {"noise": terms["noise"] * 0.0, "drift_noise": terms["drift_noise"] * 0.0}
    if case == "strongly_convex":
        L, mu, D, M, R = (array(s, given[s]) for s in ("L", "mu", "D", "M", "R"))
        with np.errstate(all="ignore"):
            worse = L / mu
            terms["drift_heterogeneity"] = _plain(worse * terms["drift_heterogeneity"])
            terms["optimisation"] = _plain(worse * mu * D**2 * np.exp(-mu * M * R / L))
    return terms


def _plain(value: Any) -> Any:
    return np.asarray(value).item() if np.ndim(value) == 0 else value


def _row(case: str, method: str, source: str, formula: str, assumptions: str, terms: dict[str, Any]) -> Row:
    named = {name: _plain(terms[name]) for name in _ORDER}
    return Row(case, method, source, formula, assumptions, named, sum(named.values()))


def _equal(symbol: str, value: Any, right: Any) -> bool:
    return value is None or right is None or bool(np.all(array(symbol, value) == array(symbol, right)))
