"""The bounds: against constants typed from the paper, its own LaTeX, and what must be so whatever the numbers."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.errors import BadInput
from baton.theory import (
    ALGORITHMS,
    CASES,
    TERMS,
    best_rate,
    bound,
    largest_rate,
    mean_variance,
    orders,
    table,
    tuned_rate,
)
from baton.theory.symbols import used_symbols
from formulas import COMMON, CONSTANTS, NUMBERS, Formulas, floats, source

PAIRS = list(product(ALGORITHMS, CASES))
# The theorems with S of M, as the proofs end, typed from the paper; h is eta_tilde.

Formula = Callable[..., tuple[Any, ...]]


def q(M: Any, S: Any) -> Fraction:
    return Fraction(M - S, S * (M - 1))


PAPER: dict[tuple[str, str], Formula] = {
    ("sequential", "strongly_convex"): lambda h, L, mu, sigma, zeta, D, M, S, K, R, **_: (
        Fraction(9, 2) * mu * D**2 * Fraction(math.exp(-mu * h * R / 2)),
        12 * h * sigma**2 / (S * K),
        12 * h * q(M, S) * zeta**2,
        18 * L * h**2 * sigma**2 / (S * K),
        18 * L * h**2 * zeta**2 / S,
    ),
    ("sequential", "convex"): lambda h, L, sigma, zeta, D, M, S, K, R, **_: (
        3 * D**2 / (h * R),
        12 * h * sigma**2 / (S * K),
        12 * h * q(M, S) * zeta**2,
        18 * L * h**2 * sigma**2 / (S * K),
        18 * L * h**2 * zeta**2 / S,
    ),
    ("sequential", "nonconvex"): lambda h, L, sigma, zeta, A, M, S, K, R, **_: (
        10 * A / (h * R),
        20 * L * h * sigma**2 / (S * K),
        20 * L * h * q(M, S) * zeta**2,
        75 * L**2 * h**2 * sigma**2 / (4 * S * K),
        75 * L**2 * h**2 * zeta**2 / (4 * S),
    ),
    ("parallel", "strongly_convex"): lambda h, L, mu, sigma, zeta, D, M, S, K, R, **_: (
        Fraction(9, 2) * mu * D**2 * Fraction(math.exp(-mu * h * R / 2)),
        12 * h * sigma**2 / (S * K),
        12 * h * q(M, S) * zeta**2,
        18 * L * h**2 * sigma**2 / K,
        12 * L * h**2 * zeta**2,
    ),
    ("parallel", "convex"): lambda h, L, sigma, zeta, D, M, S, K, R, **_: (
        3 * D**2 / (h * R),
        12 * h * sigma**2 / (S * K),
        12 * h * q(M, S) * zeta**2,
        18 * L * h**2 * sigma**2 / K,
        12 * L * h**2 * zeta**2,
    ),
    ("parallel", "nonconvex"): lambda h, L, sigma, zeta, A, M, S, K, R, **_: (
        8 * A / (h * R),
        16 * L * h * sigma**2 / (S * K),
        16 * L * h * q(M, S) * zeta**2,
        15 * L**2 * h**2 * sigma**2 / K,
        10 * L**2 * h**2 * zeta**2,
    ),
}

HAND = {  # by hand at COMMON, eta_tilde = 1/12 = 1/(6 L); participation at S = 2, the rest at S = 5
    ("sequential", "strongly_convex"): (36 * math.exp(-100 / 48), 0.18, 3 / 32, 0.045, 0.0125),
    ("sequential", "convex"): (5.76, 0.18, 3 / 32, 0.045, 0.0125),
    ("sequential", "nonconvex"): (6.0, 0.6, 0.3125, 0.09375, 5 / 192),
    ("parallel", "strongly_convex"): (36 * math.exp(-100 / 48), 0.18, 3 / 32, 0.225, 1 / 24),
    ("parallel", "convex"): (5.76, 0.18, 3 / 32, 0.225, 1 / 24),
    ("parallel", "nonconvex"): (4.8, 0.48, 0.25, 0.375, 5 / 72),
}


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
def test_by_hand(algorithm: str, case: str) -> None:
    full = bound(algorithm, case, eta_tilde=1 / 12, **floats(COMMON))
    wanted = dict(zip(TERMS, HAND[algorithm, case], strict=True))
    drawn = bound(algorithm, case, eta_tilde=1 / 12, **floats(COMMON | {"S": 2}))
    assert drawn.terms["participation"] == pytest.approx(wanted["participation"])
    assert full.terms == pytest.approx(wanted | {"participation": 0.0})
    assert full.terms["participation"] == 0.0
    assert full.total == pytest.approx(sum(wanted.values()) - wanted["participation"])
    assert full.eta == pytest.approx(1 / 12 / 50 if algorithm == "sequential" else 1 / 12 / 10)
    assert full.valid is True
    assert full.reasons == ()
    assert full.dominant() == max(full.terms, key=lambda name: full.terms[name])


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
@pytest.mark.parametrize("S", [1, 3, 7])
@pytest.mark.parametrize("rest", [(1, 1, 0), (Fraction(1, 3), 40, 2)], ids=str)
def test_in_fractions(algorithm: str, case: str, S: int, rest: tuple[Fraction, int, int]) -> None:
    L, K, beta = rest
    symbols = COMMON | {"L": L, "mu": Fraction(1, 7), "M": 7, "S": S, "K": K, "beta": beta, "R": 60, "zeta": 2}
    h = 1 / (6 * L * (1 + Fraction(beta**2, S if algorithm == "sequential" else 1)))
    wanted = PAPER[algorithm, case](h=h, **symbols)
    found = bound(algorithm, case, eta_tilde=float(h), **floats(symbols))
    assert [found.terms[name] for name in TERMS] == pytest.approx([float(w) for w in wanted], rel=1e-12)
    assert largest_rate(algorithm, case, **floats(symbols)) == pytest.approx(
        float(h if case == "nonconvex" else 1 / Fraction(6 * L)), rel=1e-12
    )


# The same out of the paper's LaTeX.


@pytest.fixture(scope="module")
def paper() -> str:
    return source()


def test_the_evaluator() -> None:
    at = {"M": 3.0, "K": 2.0, "sigma": 5.0, "h": 7.0}
    assert Formulas(r"\frac{12\tilde{\eta}\sigma^2}{MK} - 2K", at).value() == 12 * 7 * 25 / 6 - 4
    assert Formulas(r"\left(K\sigma\right)^{1/2} + \exp\left(-\frac{1}{2}K M\right)", at).value() == pytest.approx(
        10**0.5 + math.exp(-3)
    )


@pytest.mark.parametrize(("algorithm", "label"), [("sequential", "thm:SFL"), ("parallel", "thm:PFL")])
def test_the_theorems_are_the_papers(paper: str, algorithm: str, label: str) -> None:
    """S = M: the three formulas of the theorem."""
    text = paper.partition(f"\\label{{{label}}}")[2].partition("\\end{theorem}")[0]
    formulas = re.findall(r"\\leq (.*?),(?:\\label\{[^}]*\})? &&", text)
    assert len(formulas) == 3
    for case, formula in zip(CASES, formulas, strict=True):
        symbols = NUMBERS | {"S": 9.0, "h": 0.06}
        found = bound(algorithm, case, eta_tilde=0.06, **{s: symbols[s] for s in NUMBERS})
        assert found.total == pytest.approx(Formulas(formula, symbols).value(), rel=1e-12)
        assert found.terms["participation"] == 0


PROVED = {
    ("sequential", "strongly_convex"): "eq:thm:strongly convex:bound",
    ("sequential", "convex"): "eq:thm:convex:bound",
    ("sequential", "nonconvex"): "eq:thm:non-convex:bound",
    ("parallel", "strongly_convex"): "eq2:thm:proof:PFL strongly convex",
    ("parallel", "convex"): "eq1:thm:proof:PFL general convex",
    ("parallel", "nonconvex"): "eq1:thm:proof:PFL non-convex",
}


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
def test_partial_participation_is_the_proofs(paper: str, algorithm: str, case: str) -> None:
    line = paper.partition(f"\\label{{{PROVED[algorithm, case]}}}")[0].rpartition("\n")[2]
    formula = re.sub(r"\\,|[.,]$", "", line.partition(r"&\leq ")[2])
    found = bound(algorithm, case, eta_tilde=0.06, **NUMBERS)
    assert found.total == pytest.approx(Formulas(formula, NUMBERS | {"h": 0.06}).value(), rel=1e-12)
    assert found.terms["participation"] > 0


TUNED = {
    ("sequential", "strongly_convex"): "eq:thm:strongly convex:bound2",
    ("sequential", "convex"): "eq:thm:convex:bound2",
    ("sequential", "nonconvex"): "eq:thm:non-convex:bound2",
    ("parallel", "strongly_convex"): "eq3:thm:proof:PFL strongly convex",
    ("parallel", "convex"): "eq2:thm:proof:PFL general convex",
    ("parallel", "nonconvex"): "eq2:thm:proof:PFL non-convex",
}


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
def test_orders_are_the_proofs(paper: str, algorithm: str, case: str) -> None:
    """S of M; the proof's exp(-mu R/(12 L)) is the corollary's exp(-mu R/L)."""
    before = paper.partition(f"\\label{{{TUNED[algorithm, case]}}}")[0]
    formula = before.rpartition(r"\gO\left(")[2].strip().removesuffix(",").removesuffix(r"\,").removesuffix(r"\right)")
    formula = formula.replace("12L", "L")
    found = orders(algorithm, case, **NUMBERS)
    assert tuple(found) == TERMS
    assert sum(found.values()) == pytest.approx(Formulas(formula, NUMBERS).value(), rel=1e-12)


@pytest.mark.parametrize("corollary", ["cor:SFL", "cor:PFL"])
def test_the_corollaries_are_the_papers(paper: str, corollary: str) -> None:
    text = paper.partition(f"\\label{{{corollary}}}")[2].partition("\\end{corollary}")[0]
    formulas = re.findall(r"\\gO\\left\((.*)\\right\)(?:\\,)?\.", text)
    assert len(formulas) == 3
    algorithm = "sequential" if corollary == "cor:SFL" else "parallel"
    symbols = NUMBERS | {"S": 9.0}
    for case, formula in zip(CASES, formulas, strict=True):
        found = orders(algorithm, case, **symbols)
        assert sum(found.values()) == pytest.approx(Formulas(formula, symbols).value(), rel=1e-12)


ORDERS = {  # by hand at COMMON with S = 2 of 5 and, nonconvex, beta = 2
    ("sequential", "strongly_convex"): (8 * math.exp(-25), 0.009, 0.001875, 0.00036, 0.0001),
    ("parallel", "strongly_convex"): (8 * math.exp(-25), 0.009, 0.001875, 0.00072, 0.0002),
    ("sequential", "convex"): (0.32, 12 / 2000**0.5, 0.12**0.5 / 10**0.5, 0.02304 ** (1 / 3), 0.0064 ** (1 / 3)),
    ("parallel", "convex"): (0.32, 12 / 2000**0.5, 0.12**0.5 / 10**0.5, 0.04608 ** (1 / 3), 0.0128 ** (1 / 3)),
    ("sequential", "nonconvex"): (0.3, 0.045**0.5, 0.0075**0.5, 0.0045 ** (1 / 3), 0.00125 ** (1 / 3)),
    ("parallel", "nonconvex"): (0.5, 0.045**0.5, 0.0075**0.5, 0.009 ** (1 / 3), 0.0025 ** (1 / 3)),
}


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
def test_orders_by_hand(algorithm: str, case: str) -> None:
    found = orders(algorithm, case, **floats(COMMON | {"S": 2, "beta": 2}))
    assert found == pytest.approx(dict(zip(TERMS, ORDERS[algorithm, case], strict=True)))


# What must be so whatever the numbers.

SIZE = st.floats(0.01, 100.0)
COUNT = st.integers(1, 40)


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Constants under which all six bounds hold, with a rate for the least limit of all."""
    M = draw(st.integers(2, 40))
    L, kappa = draw(SIZE), draw(st.floats(1.0, 30.0))
    found = {"L": L, "mu": L / kappa, "sigma": draw(SIZE), "zeta": draw(SIZE), "beta": draw(st.floats(0.0, 2.0))}
    found |= {"D": draw(SIZE), "A": draw(SIZE), "M": M, "S": draw(st.integers(1, M)), "K": draw(COUNT)}
    return found | {"R": draw(st.integers(math.ceil(30 * kappa), 10_000))}


def rate(symbols: dict[str, Any]) -> float:
    return 1 / (6 * symbols["L"] * (1 + symbols["beta"] ** 2))


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(PAIRS), st.floats(1.001, 10.0))
def test_bounds_grow_with_what_makes_it_harder(p: dict[str, Any], pair: tuple[str, str], factor: float) -> None:
    case = pair[1]
    before = bound(*pair, eta_tilde=rate(p), **p).total
    for symbol in ("sigma", "zeta", "A" if case == "nonconvex" else "D"):
        assert bound(*pair, eta_tilde=rate(p), **p | {symbol: factor * p[symbol]}).total > before
    assert bound(*pair, eta_tilde=rate(p), **p | {"R": 2 * p["R"]}).total <= before
    assert bound(*pair, eta_tilde=rate(p), **p | {"K": 2 * p["K"]}).total < before
    least = bound(*pair, **p).total
    assert bound(*pair, **p | {"zeta": factor * p["zeta"], "sigma": factor * p["sigma"]}).total >= least


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(PAIRS))
def test_participation_vanishes_with_all_clients(p: dict[str, Any], pair: tuple[str, str]) -> None:
    full = bound(*pair, eta_tilde=rate(p), **p | {"S": p["M"]})
    assert full.terms["participation"] == 0
    assert full == bound(*pair, eta_tilde=rate(p), **p | {"S": None})
    some = bound(*pair, eta_tilde=rate(p), **p)
    assert (some.terms["participation"] > 0) == (p["S"] < p["M"])
    assert some.total >= full.total
    factor = {"convex": 12, "strongly_convex": 12, "nonconvex": (20 if pair[0] == "sequential" else 16) * p["L"]}[
        pair[1]
    ]
    variance = mean_variance(p["zeta"], p["M"], p["S"])
    assert some.terms["participation"] == pytest.approx(factor * rate(p) * variance)


RATIOS = {  # sequential over parallel at the same eta_tilde, where drift terms are over S too
    "strongly_convex": (1, 1, 1, 1, Fraction(3, 2)),
    "convex": (1, 1, 1, 1, Fraction(3, 2)),
    "nonconvex": (Fraction(5, 4), Fraction(5, 4), Fraction(5, 4), Fraction(5, 4), Fraction(15, 8)),
}


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(CASES))
def test_sequential_over_parallel(p: dict[str, Any], case: str) -> None:
    """The paper's 1/M (1/S) on both drift terms, times constants that its table leaves out."""
    one, other = (bound(algorithm, case, eta_tilde=rate(p), **p) for algorithm in ALGORITHMS)
    for name, ratio in zip(TERMS, RATIOS[case], strict=True):
        shared = p["S"] if name.startswith("drift") else 1
        assert one.terms[name] * shared == pytest.approx(float(ratio) * other.terms[name], rel=1e-9)
    assert one.eta * p["S"] == pytest.approx(other.eta)
    if p["S"] >= 2:
        assert one.terms["drift_heterogeneity"] < other.terms["drift_heterogeneity"]
        assert one.terms["drift_noise"] < other.terms["drift_noise"]


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(PAIRS), st.floats(0.1, 10.0))
def test_units(p: dict[str, Any], pair: tuple[str, str], c: float) -> None:
    """F times c; x measured in units c times as long. The bound has F's units, nonconvex |grad F|^2's."""
    before, nonconvex = bound(*pair, **p), pair[1] == "nonconvex"
    louder = p | {symbol: c * p[symbol] for symbol in ("L", "mu", "sigma", "zeta", "A")}
    longer = p | {
        "L": c**2 * p["L"],
        "mu": c**2 * p["mu"],
        "sigma": c * p["sigma"],
        "zeta": c * p["zeta"],
        "D": p["D"] / c,
    }
    for scaled, factor, step in ((louder, c**2 if nonconvex else c, c), (longer, c**2 if nonconvex else 1.0, c**2)):
        for name, value in bound(*pair, eta_tilde=before.eta_tilde / step, **scaled).terms.items():
            assert value == pytest.approx(factor * before.terms[name], rel=1e-9)
        assert bound(*pair, **scaled).total == pytest.approx(factor * before.total, rel=1e-9)
        assert bound(*pair, **scaled).eta_tilde == pytest.approx(before.eta_tilde / step, rel=1e-5)
        assert tuned_rate(*pair, **scaled) == pytest.approx(tuned_rate(*pair, **p) / step)
        found = orders(*pair, **scaled)
        assert sum(found.values()) == pytest.approx(factor * sum(orders(*pair, **p).values()))


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
@pytest.mark.parametrize("symbol", [*NUMBERS, "eta_tilde"])
def test_any_symbol_may_be_an_array(algorithm: str, case: str, symbol: str) -> None:
    steps = np.arange(3.0)
    base = NUMBERS | {"eta_tilde": 0.05}
    many = base | {symbol: base[symbol] + (steps if symbol in ("M", "S", "K", "R") else 0.1 * base[symbol] * steps)}
    found = bound(algorithm, case, **many)
    for i in range(3):
        single = bound(algorithm, case, **base | {symbol: float(many[symbol][i])})
        used = symbol in used_symbols(case) | {"eta_tilde"}
        assert np.shape(found.total) == ((3,) if used else ())
        assert found.total[i] == single.total if used else found.total == single.total
        assert all(np.broadcast_to(found.terms[name], 3)[i] == single.terms[name] for name in TERMS)
        assert np.broadcast_to(found.valid, 3)[i]
        assert isinstance(single.total, float)


def test_arrays_broadcast() -> None:
    R, zeta = np.array([100, 200, 400, 800]), np.linspace(0, 1, 3)[:, None]
    found = bound("parallel", "convex", **NUMBERS | {"R": R, "zeta": zeta})
    assert {np.shape(value) for value in (found.total, found.eta, found.eta_tilde, found.valid)} == {(3, 4)}
    assert {term.shape for term in found.terms.values()} == {(3, 4)}
    assert found.dominant().shape == (3, 4)
    for i, j in product(range(3), range(4)):
        single = bound("parallel", "convex", **NUMBERS | {"R": int(R[j]), "zeta": float(zeta[i, 0])})
        assert found.eta_tilde[i, j] == single.eta_tilde
        assert found.total[i, j] == single.total
        assert found.dominant()[i, j] == single.dominant()


# Rates.


@settings(max_examples=80, deadline=None)
@given(problems(), st.sampled_from(PAIRS), st.sampled_from(["", "sigma", "zeta"]))
def test_the_minimiser_beats_a_grid(p: dict[str, Any], pair: tuple[str, str], none: str) -> None:
    p = p | ({none: 0.0} if none else {})
    most = largest_rate(*pair, **p)
    least = 1 / (p["mu"] * (p["R"] + 1)) if pair[1] == "strongly_convex" else 1e-9 * most
    grid = np.geomspace(least, most, 4001).clip(least, most)
    found = bound(*pair, **p)
    assert found.valid
    assert least * (1 - 1e-9) <= found.eta_tilde <= most
    on_grid = bound(*pair, eta_tilde=grid, **p)
    assert on_grid.valid.all()
    assert found.total <= on_grid.total.min() * (1 + 1e-12)
    near = on_grid.total.argmin()
    assert grid[max(0, near - 1)] * (1 - 1e-6) <= found.eta_tilde <= grid[min(4000, near + 1)] * (1 + 1e-6)
    assert found.eta_tilde == best_rate(*pair, **p)


def test_without_noise_the_limit_is_best() -> None:
    exact = NUMBERS | {"sigma": 0.0, "zeta": 0.0, "R": 100_000.0}
    for pair in PAIRS:
        assert bound(*pair, **exact).eta_tilde == largest_rate(*pair, **exact) == tuned_rate(*pair, **exact)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(ALGORITHMS), st.sampled_from(["convex", "nonconvex"]))
def test_the_tuned_rate_is_the_lemmas(p: dict[str, Any], algorithm: str, case: str) -> None:
    """min{sqrt(r0/(c1 T)), (r0/(c2 T))^(1/3), 1/d}, c1 and c2 as in the proofs; at most 3 times the least bound."""
    nonconvex, sequential = case == "nonconvex", algorithm == "sequential"
    P, L = (p["S"] if sequential else 1), p["L"]
    mixed = p["sigma"] ** 2 / (p["S"] * p["K"]) + float(q(p["M"], p["S"])) * p["zeta"] ** 2
    c1 = (2 * L if nonconvex else 4) * mixed
    one, other = {
        ("convex", True): (6 * L, 6 * L),
        ("convex", False): (6 * L, 4 * L),
        ("nonconvex", True): (15 / 8 * L**2, 15 / 8 * L**2),
        ("nonconvex", False): (15 / 8 * L**2, 5 / 4 * L**2),
    }[case, sequential]
    c2 = one * p["sigma"] ** 2 / (P * p["K"]) + other * p["zeta"] ** 2 / P
    r0, d = p["A"] if nonconvex else p["D"] ** 2, 6 * L * (1 + p["beta"] ** 2 / P if nonconvex else 1)
    wanted = min((r0 / (c1 * p["R"])) ** 0.5, (r0 / (c2 * p["R"])) ** (1 / 3), 1 / d)
    found = tuned_rate(algorithm, case, **p)
    assert found == pytest.approx(wanted)
    tuned = bound(algorithm, case, eta_tilde=found, **p)
    assert tuned.valid
    assert tuned.total <= 3 * bound(algorithm, case, **p).total * (1 + 1e-9)
    constants = {"convex": (3, 3), "nonconvex": (10, 8)}[case][not sequential]  # 1/b
    T = p["R"]
    limit = constants * (d * r0 / T + 2 * (c1 * r0 / T) ** 0.5 + 2 * c2 ** (1 / 3) * (r0 / T) ** (2 / 3))
    assert tuned.total <= limit * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(ALGORITHMS), st.booleans())
def test_the_strongly_convex_tuned_rate(p: dict[str, Any], algorithm: str, silent: bool) -> None:
    """ln(max{2, a^2 r0 T/c})/(a T): the lemma's where c1 rules; with c1 = 0 the bound still falls as 1/R^2."""
    p = p | ({"sigma": 0.0, "S": p["M"]} if silent else {})
    found = tuned_rate(algorithm, "strongly_convex", rule="with_drift", **p)
    tuned = bound(algorithm, "strongly_convex", eta_tilde=found, **p)
    assert tuned.valid
    a, r0 = p["mu"] / 2, p["D"] ** 2
    c1 = 4 * (p["sigma"] ** 2 / (p["S"] * p["K"]) + float(q(p["M"], p["S"])) * p["zeta"] ** 2)
    lemmas = math.log(max(2, a**2 * r0 * p["R"] / c1)) / (a * p["R"]) if c1 else math.inf
    least = min(1 / (6 * p["L"]), lemmas)
    assert tuned_rate(algorithm, "strongly_convex", **p) == pytest.approx(least)
    assert found <= least * (1 + 1e-9)
    P, factor = (p["S"], 6) if algorithm == "sequential" else (1, 4)
    c2 = p["L"] * (6 * p["sigma"] ** 2 / p["K"] + factor * p["zeta"] ** 2) / P
    both = min(lemmas, math.log(max(2, a**3 * r0 * p["R"] ** 2 / c2)) / (a * p["R"]))
    assert found == pytest.approx(min(1 / (6 * p["L"]), both))
    logarithm = max(1.0, found * a * p["R"])
    order = orders(algorithm, "strongly_convex", **p)
    slow = math.exp(-p["mu"] * p["R"] / (12 * p["L"])) * p["mu"] * p["D"] ** 2  # the proof's exponent
    rest = sum(order[name] for name in TERMS[1:])
    # by hand, where X = 2: 9/2 mu D^2 / 2 <= 216 and 18 L h^2 zeta^2 / S <= 35 of the corollary's drift term
    assert tuned.total <= 251 * logarithm**2 * (slow + rest)


def test_without_noise_the_tuned_bound_falls_as_the_corollary_says() -> None:
    """All clients, exact gradients: 1/R^2 up to logarithms; at 1/(6 L) it would stand still."""
    exact = NUMBERS | {"sigma": 0.0, "S": 9.0, "R": np.array([1e4, 1e5, 1e6])}
    for algorithm in ALGORITHMS:
        rates = tuned_rate(algorithm, "strongly_convex", rule="with_drift", **exact)
        total = bound(algorithm, "strongly_convex", eta_tilde=rates, **exact).total
        assert (total[1:] < total[:-1] / 40).all()


# Conditions.

BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("convex", {"L": 0.0}, "L: 0; a number above 0"),
    ("convex", {"L": math.nan}, "L: nan; a number above 0"),
    ("convex", {"L": math.inf}, "L: inf; a number above 0"),
    ("convex", {"sigma": -1.0}, "sigma: -1; a number of 0 or more"),
    ("nonconvex", {"zeta": -0.5}, "zeta: -0.5; a number of 0 or more"),
    ("nonconvex", {"beta": -2.0}, "beta: -2; a number of 0 or more"),
    ("nonconvex", {"A": -1.0}, "A: -1; a number of 0 or more"),
    ("convex", {"D": -1.0}, "D: -1; a number of 0 or more"),
    ("convex", {"M": 1, "S": 1}, "M: 1; a whole number of 2 or more"),
    ("convex", {"M": 9.5}, "M: 9.5; a whole number of 2 or more"),
    ("convex", {"S": 0}, "S: 0; a whole number of 1 or more"),
    ("convex", {"S": 10}, "S: 10; at most M = 9 is right"),
    ("convex", {"K": 0}, "K: 0; a whole number of 1 or more"),
    ("convex", {"R": 0}, "R: 0; a whole number of 1 or more"),
    ("strongly_convex", {"mu": 0.0}, "mu: 0; a number above 0"),
    ("strongly_convex", {"mu": 2.0}, "mu: 2; at most L = 1.7 is right"),
    ("strongly_convex", {"R": 33}, "R: 33; at least 6 L/mu = 34 is right"),
    ("convex", {"eta_tilde": 0.0}, "eta_tilde: 0; a number above 0"),
    ("strongly_convex", {"eta_tilde": 0.0981}, r"eta_tilde: 0.0981; at most 1/\(6 L\) = 0.0980392 is right"),
    ("convex", {"eta_tilde": 0.1}, r"at most 1/\(6 L\)"),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("case", "change", "line"), BROKEN)
def test_conditions(algorithm: str, case: str, change: dict[str, Any], line: str) -> None:
    base: dict[str, Any] = NUMBERS | {"eta_tilde": 0.08}
    with pytest.raises(BadInput, match=line):
        bound(algorithm, case, **base | change)
    flagged = bound(algorithm, case, **base | change, strict=False)
    assert flagged.valid is False
    assert any(re.search(line, reason) for reason in flagged.reasons)
    assert "\n" not in "".join(flagged.reasons)
    good = bound(algorithm, case, **base)
    assert good.valid is True
    some = {symbol: np.array([base[symbol], value, base[symbol]]) for symbol, value in change.items()}
    assert bound(algorithm, case, **base | some, strict=False).valid.tolist() == [True, False, True]


@pytest.mark.parametrize(("algorithm", "most"), [("sequential", 1 / 6 / 2 / 1.25), ("parallel", 1 / 6 / 2 / 2)])
def test_the_nonconvex_limit(algorithm: str, most: float) -> None:
    """beta^2/S for sequential, beta^2 for parallel."""
    p = floats(COMMON) | {"beta": 1.0, "S": 4}
    assert largest_rate(algorithm, "nonconvex", **p) == pytest.approx(most)
    assert bound(algorithm, "nonconvex", eta_tilde=most, **p).valid
    with pytest.raises(BadInput, match=r"eta_tilde: .*; at most 1/\(6 L \(1 \+ beta\^2"):
        bound(algorithm, "nonconvex", eta_tilde=1.0001 * most, **p)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_condition_of_the_proof_alone_is_flagged(algorithm: str) -> None:
    """mu eta_tilde (R + 1) >= 1: below it the formula is not a bound, as F at the start shows."""
    p: dict[str, Any] = {"L": 1.0, "mu": 0.01, "sigma": 0.0, "zeta": 0.0, "D": 1.0, "M": 2, "K": 1, "R": 600}
    edge = 1 / (0.01 * 601)
    assert bound(algorithm, "strongly_convex", eta_tilde=edge, **p).valid
    tiny = bound(algorithm, "strongly_convex", eta_tilde=1e-9, **p)  # not an error: the theorem does not say it
    assert not tiny.valid
    assert "for the proof at least 1/(mu (R + 1)) = 0.166389 is right" in tiny.reasons[0]
    assert tiny.total < 0.5 * p["L"] * p["D"] ** 2  # which F(x0) - F* may be, and no step has been taken
    assert bound(algorithm, "strongly_convex", **p).valid


def test_rounding_at_the_edges_is_forgiven() -> None:
    for L in np.linspace(0.3, 3, 50):
        for pair in PAIRS:
            assert bound(*pair, **NUMBERS | {"L": L, "R": 1000}, eta_tilde=1 / 6 / L / (1 + 0.16)).valid
    assert bound("sequential", "strongly_convex", **NUMBERS | {"L": 0.3, "mu": 0.1, "R": 18}).valid


@pytest.mark.parametrize(
    ("words", "symbols", "line"),
    [
        (("sequentiel", "convex"), {}, "algorithm: 'sequentiel' is not known; did you mean 'sequential'"),
        (("parallel", "concave"), {}, "case: 'concave' is not known; did you mean 'convex'"),
        (("parallel", "convex"), {"D": None}, "D: missing; the convex case needs it"),
        (("parallel", "nonconvex"), {"A": None}, "A: missing"),
        (("parallel", "strongly_convex"), {"mu": None}, "mu: missing"),
        (("parallel", "convex"), {"L": "one"}, "L: 'one'; a number or an array"),
        (("parallel", "convex"), {"M": [3, 4], "R": [1, 2, 3]}, r"M \[2\], S \[2\], R \[3\]"),
        (("parallel", "convex"), {"eta_tilde": "small"}, "eta_tilde: 'small'; a number"),
        (("parallel", "convex"), {"sigm": 1.0}, "sigm: no such symbol; did you mean 'sigma'"),
    ],
)
def test_words_that_make_no_sense(words: tuple[str, str], symbols: dict[str, Any], line: str) -> None:
    for strict in (True, False):
        with pytest.raises(BadInput, match=line):
            bound(*words, **{**NUMBERS, "S": None} | symbols, strict=strict)


def test_rates_and_orders_check_too() -> None:
    bad = NUMBERS | {"sigma": -1.0}
    for ask in (best_rate, tuned_rate, largest_rate, orders):
        with pytest.raises(BadInput, match="sigma: -1"):
            ask("sequential", "convex", **bad)
        ask("sequential", "convex", **bad, strict=False)
    for symbol, value in (("S", 4), ("beta", 0.5)):
        with pytest.raises(BadInput, match=f"{symbol}: {value}; Table 1 is for"):
            table(**CONSTANTS, **{symbol: value})
    with pytest.raises(BadInput, match="case: 'concave'"):
        table("concave", **CONSTANTS)
