"""Appendices B and D: recursions whose sums are the theorems, K's threshold, bounds of related work, tuned rates."""

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from baton import theory
from baton.theory import ALGORITHMS, CASES

PAPER = Path(__file__).parents[3] / "shared" / "paper"
SYMBOLS = {"L": 2.0, "mu": 0.3, "sigma": 1.5, "zeta": 0.7, "D": 3.0, "A": 4.0, "M": 12, "S": 5, "K": 4, "R": 500}
FULL = {symbol: value for symbol, value in SYMBOLS.items() if symbol != "S"}
PAIRS = list(product(ALGORITHMS, CASES))


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
def test_the_theorems_are_sums_of_their_one_round_recursions(algorithm: str, case: str) -> None:
    """The tuning lemmas: 3 a r0/b exp(-a h R) + c1 h/b + c2 h^2/b; with a = 0 the first is r0/(b h R)."""
    found = theory.summable(algorithm, case, **SYMBOLS)
    h = theory.tuned_rate(algorithm, case, **SYMBOLS)
    start = SYMBOLS["A"] if case == "nonconvex" else SYMBOLS["D"] ** 2
    if case == "strongly_convex":
        first = 3 * found.a * start / found.b * math.exp(-found.a * h * SYMBOLS["R"])
    else:
        first = start / (found.b * h * SYMBOLS["R"])
    total = first + found.linear * h / found.b + found.square * h**2 / found.b
    assert theory.bound(algorithm, case, eta_tilde=h, **SYMBOLS).total == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
@pytest.mark.parametrize("share", [1.0, 0.3, 0.01])
def test_a_recursion_with_the_drift_lemma_put_in_is_the_one_that_is_summed(
    algorithm: str, case: str, share: float
) -> None:
    h = share * theory.largest_rate(algorithm, case, **SYMBOLS)
    eta = h / (SYMBOLS["K"] * (SYMBOLS["S"] if algorithm == "sequential" else 1))
    lemma = theory.recursion(algorithm, case, eta=eta, **SYMBOLS)
    assert lemma.valid
    summed = theory.summable(algorithm, case, **SYMBOLS)
    more = {"gradient": 1.0, "beta": 0.0} if case == "nonconvex" else {"gap": 1.0}
    names = ("L", "sigma", "zeta", "K", "S")
    drift = theory.drift_bound(algorithm, case, eta=eta, **{n: SYMBOLS[n] for n in names}, **more).terms
    added = lemma.noise + lemma.participation + lemma.drift * (drift["noise"] + drift["heterogeneity"])
    assert added == pytest.approx(summed.linear * h**2 + summed.square * h**3, rel=1e-12)
    assert lemma.keep == pytest.approx(1 - summed.a * h, rel=1e-12)
    assert lemma.descent - lemma.drift * drift["optimality"] >= summed.b * h * (1 - 1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_recursion_bounds_a_round_on_a_quadratic(algorithm: str) -> None:
    """Two clients a/2 |x - b_m|^2 in one dimension, exact gradients, all orders: both sides by hand."""
    L, K, eta, b = 1.0, 3, 0.02, np.array([-1.0, 1.0])
    x0, star, zeta = 2.0, 0.0, 1.0
    ends, drift = [], []
    for order in ((0, 1), (1, 0)):
        x, path = x0, []
        local = []
        for m in order:
            y = x if algorithm == "sequential" else x0
            for _ in range(K):
                path.append((y - x0) ** 2)
                y -= eta * L * (y - b[m])
            x = y
            local.append(y)
        ends.append(x if algorithm == "sequential" else float(np.mean(local)))
        drift.append(sum(path) / (1 if algorithm == "sequential" else 2))
    r = theory.recursion(algorithm, "strongly_convex", eta=eta, L=L, mu=L, sigma=0.0, zeta=zeta, M=2, S=2, K=K)
    left = np.mean([(end - star) ** 2 for end in ends])
    gap = L / 2 * (x0 - star) ** 2
    right = r.keep * (x0 - star) ** 2 - r.descent * gap + r.noise + r.participation + r.drift * np.mean(drift)
    assert left <= right


def test_more_local_steps_than_the_papers_threshold_are_of_no_use() -> None:
    """K beyond (sigma^2/zeta_*^2)(mu/L) R: the two terms of Corollary 1 are equal there."""
    threshold = theory.useful_steps("sequential", "strongly_convex", **FULL)
    by_hand = SYMBOLS["sigma"] ** 2 / SYMBOLS["zeta"] ** 2 * SYMBOLS["mu"] / SYMBOLS["L"] * SYMBOLS["R"]
    assert threshold == pytest.approx(by_hand, rel=1e-12)
    for algorithm, case in PAIRS:
        K = theory.useful_steps(algorithm, case, **FULL)
        terms = theory.orders(algorithm, case, strict=False, **FULL | {"K": K})
        assert terms["noise"] == pytest.approx(terms["drift_heterogeneity"], rel=1e-9)
    assert theory.useful_steps("sequential", "strongly_convex", **FULL | {"zeta": 0.0}) == math.inf


def test_the_tuned_rate_is_the_lemmas_and_the_smaller_one_has_a_name() -> None:
    """The paper's example: no noise, all clients, c1 = 0: the lemma takes 1/d."""
    given = {"L": 1, "mu": 0.1, "sigma": 0, "zeta": 1, "D": 1, "M": 10, "K": 5, "R": 1000}
    assert theory.tuned_rate("sequential", "strongly_convex", **given) == pytest.approx(1 / 6)
    assert theory.tuned_rate("sequential", "strongly_convex", rule="with_drift", **given) == pytest.approx(
        0.1068, rel=1e-3
    )
    noisy = given | {"sigma": 1.0}
    c, a, r0 = 4 / (10 * 5), 0.05, 1.0
    lemma = math.log(max(2, a**2 * r0 * 1000 / c)) / (a * 1000)
    assert theory.tuned_rate("sequential", "strongly_convex", **noisy) == pytest.approx(min(1 / 6, lemma))


def test_the_bounds_of_cho_are_the_papers() -> None:
    L, mu, s, z, M, K, R = (SYMBOLS[n] for n in ("L", "mu", "sigma", "zeta", "M", "K", "R"))
    parallel, sequential, *_ = theory.related(**FULL)
    assert parallel.total == pytest.approx(L * s**2 / (mu**2 * M * K * R) + L**2 * z**2 / (mu**3 * M**2 * R**2))
    wanted = L * s**2 / (mu**2 * K * R) + L**2 * z**2 / (mu**3 * R**2) + L**2 * z**2 / (mu**3 * M**2 * R**2)
    assert sequential.total == pytest.approx(wanted)
    assert math.isnan(sequential.terms["optimisation"])


@pytest.mark.parametrize("eta", [1e-4, 1e-3])
def test_the_bounds_of_malinovsky_and_theorem_1_differ_by_the_condition_number(eta: float) -> None:
    L, mu, z, D, M, K, R = (SYMBOLS[n] for n in ("L", "mu", "zeta", "D", "M", "K", "R"))
    form = L * M * K**2 * eta**2 * z**2 + mu * D**2 * math.exp(-mu * M * K * R * eta)
    given = {n: SYMBOLS[n] for n in ("L", "mu", "zeta", "D", "M", "K", "R")}
    assert theory.shuffled(own=True, eta=eta, **given).total == pytest.approx(form)
    assert theory.shuffled(eta=eta, **given).total == pytest.approx(L / mu * form)


def test_left_out_the_rate_of_a_shuffled_bound_is_its_best_within_its_limit() -> None:
    given = {n: SYMBOLS[n] for n in ("L", "mu", "zeta", "D", "M", "K", "R")}
    for own, most in ((False, 1 / given["L"]), (True, 1 / (given["L"] * given["M"] * given["K"]))):
        best = theory.shuffled(own=own, **given).total
        tried = [theory.shuffled(own=own, eta=eta, **given).total for eta in np.geomspace(most * 1e-6, most, 400)]
        assert best <= min(tried) * (1 + 1e-6)


@pytest.mark.skipif(not PAPER.is_dir(), reason="the paper's source is not on this machine")
def test_the_formulas_of_related_work_stand_in_the_paper() -> None:
    text = re.sub(r"\s+", "", next(PAPER.glob("*.txt")).read_text("utf-8"))
    for row in theory.related(**FULL):
        formula = (
            row.formula.removeprefix(r"\frac{L}{\mu}\left(").removesuffix(r"\right)")
            if "exp" in row.formula
            else row.formula
        )
        assert re.sub(r"\s+", "", formula).rstrip(")") in text
