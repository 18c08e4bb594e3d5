"""The averaged iterate and the lemmas: against fractions, every permutation there is, and runs that must obey."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baton.errors import BadInput
from baton.theory import (
    ALGORITHMS,
    CASES,
    average,
    bound,
    covariance,
    drift_bound,
    mean_variance,
    partial_sum,
    path_variance,
    path_variance_bound,
    weights,
)
from formulas import NUMBERS

PAIRS = list(product(ALGORITHMS, CASES))


# The averaged iterate.


def test_weights_are_the_theorems() -> None:
    """w_r = (1 - mu h/2)^-(r + 1), summed in fractions."""
    x = Fraction(1, 2) * Fraction(1, 12) / 2
    exact = [(1 - x) ** -(r + 1) for r in range(40)]
    found = weights(39, "strongly_convex", 0.5, 1 / 12)
    assert found == pytest.approx([float(w / sum(exact)) for w in exact], rel=1e-12)
    for case in ("convex", "nonconvex"):
        assert weights(4, case).tolist() == [0.2] * 5


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 60), st.floats(1e-6, 10.0), st.floats(1e-6, 0.19), st.integers(0, 2**31))
def test_average_is_the_direct_sum(R: int, mu: float, eta: float, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(R + 1, 3, 2))
    w = (1 - mu * eta / 2) ** -(np.arange(R + 1) + 1.0)
    assert average(x, "strongly_convex", mu, eta) == pytest.approx(np.einsum("r,rij->ij", w, x) / w.sum(), abs=1e-9)
    assert average(x, "convex") == pytest.approx(x.mean(0))
    assert average(x[:, 0, 0], "nonconvex") == pytest.approx(x[:, 0, 0].mean())


def test_weights_stay_finite() -> None:
    """(1 - 1/12)^-100001 is beyond any float; so is the sum."""
    found = weights(100_000, "strongly_convex", 1.0, 1 / 6)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)
    assert found[-1] == pytest.approx(1 / 12)  # of a geometric series
    assert found[-2] == pytest.approx(found[-1] * 11 / 12)
    assert average(np.arange(100_001.0), "strongly_convex", 1.0, 1 / 6) == pytest.approx(100_000 - 11)
    even = weights(1000, "strongly_convex", 1e-14, 1e-3)
    assert even == pytest.approx(np.full(1001, 1 / 1001))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (([], "convex"), r"iterates: shape \[0\]"),
        ((3.0, "convex"), r"iterates: shape \[\]"),
        (([[1, 2], [3]], "convex"), "iterates: not numbers of one shape"),
        (([1.0], "convexe"), "case: 'convexe'"),
        (([1.0], "strongly_convex"), "mu: missing"),
        (([1.0], "strongly_convex", 1.0), "eta_tilde: missing"),
        (([1.0], "strongly_convex", -1.0, 0.1), "mu: -1"),
        (([1.0], "strongly_convex", 1.0, 2.5), "eta_tilde: 2.5; below 2/mu = 2"),
    ],
)
def test_bad_averages(words: tuple[Any, ...], line: str) -> None:
    with pytest.raises(BadInput, match=line):
        average(*words)
    with pytest.raises(BadInput, match="R: -1"):
        weights(-1, "convex")


# The lemmas, against every permutation there is.


def population(M: int, d: int = 2) -> tuple[np.ndarray, float]:
    """Vectors about their mean, and their zeta."""
    x = np.random.default_rng(M).normal(size=(M, d)) + 3
    x = x - x.mean(0)
    return x, float(np.sqrt((x**2).sum(1).mean()))


@pytest.mark.parametrize("M", [2, 3, 5])
def test_means_of_samples(M: int) -> None:
    x, zeta = population(M)
    for S in range(1, M + 1):
        for replacement, ways in ((True, product(x, repeat=S)), (False, permutations(x, S))):
            squared = [(np.mean(way, axis=0) ** 2).sum() for way in ways]
            assert mean_variance(zeta, M, S, replacement) == pytest.approx(np.mean(squared), abs=1e-12)
    pairs = [float(a @ b) for a, b in permutations(x, 2)]
    assert covariance(zeta, M) == pytest.approx(np.mean(pairs))
    assert mean_variance(zeta, M, 3 * M, replacement=True) == pytest.approx(zeta**2 / (3 * M))


def paths(order: np.ndarray, K: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Where the sum of deviations is before every step of a round."""
    for m in range(1, len(order) + 1):
        for k in range(K):
            yield m, k, K * order[: m - 1].sum(0) + k * order[m - 1]


@pytest.mark.parametrize(("M", "K"), [(2, 1), (2, 4), (3, 2), (4, 3), (5, 1), (6, 2)])
def test_the_sequential_lemma_is_exact(M: int, K: int) -> None:
    x, zeta = population(M)
    squares: dict[tuple[int, int], list[float]] = {}
    for order in permutations(range(M)):
        for m, k, path in paths(x[list(order)], K):
            squares.setdefault((m, k), []).append(float((path**2).sum()))
    exact = {place: float(np.mean(found)) for place, found in squares.items()}
    for (m, k), value in exact.items():
        assert partial_sum(m, k, zeta, M, K) == pytest.approx(value, abs=1e-10)
    for S in range(1, M + 1):
        total = sum(value for (m, _), value in exact.items() if m <= S)
        assert path_variance(zeta, M, S, K) == pytest.approx(total, abs=1e-9)
        assert total <= path_variance_bound(zeta, S, K) + 1e-9


def test_the_sequential_lemma_by_chance() -> None:
    M, S, K, draws = 30, 12, 4, 4000
    x, zeta = population(M, 3)
    rng = np.random.default_rng(5)
    totals = []
    for _ in range(draws):
        d = x[rng.permutation(M)[:S]]
        before = np.concatenate([np.zeros((1, 3)), d.cumsum(0)[:-1]])
        path = K * before[:, None] + np.arange(K)[:, None] * d[:, None]  # [S, K, 3]
        totals.append(float((path**2).sum()))
    error = np.std(totals) / draws**0.5
    assert abs(np.mean(totals) - path_variance(zeta, M, S, K)) < 4 * error


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 60), st.data())
def test_the_sequential_lemma_in_fractions(M: int, data: Any) -> None:
    S, K = data.draw(st.integers(1, M)), data.draw(st.integers(1, 30))
    total = Fraction(0)
    for m, k in product(range(1, S + 1), range(K)):
        before = m - 1
        total += Fraction(K**2 * before * (M - before) - 2 * K * k * before, M - 1) + k**2
    assert path_variance(1.0, M, S, K) == pytest.approx(float(total), rel=1e-12)
    assert total <= Fraction(S**2 * K**3, 2)
    assert path_variance_bound(1.0, S, K) == S**2 * K**3 / 2


def test_lemmas_take_arrays_and_refuse_nonsense() -> None:
    S = np.arange(1, 6)
    assert mean_variance(2.0, 5, S).tolist() == [mean_variance(2.0, 5, int(s)) for s in S]
    assert path_variance(2.0, 5, S, 3).tolist() == [path_variance(2.0, 5, int(s), 3) for s in S]
    for ask, line in [
        (lambda: mean_variance(1.0, 5, 6), "S: 6; at most M = 5"),
        (lambda: mean_variance(1.0, 1, 1), "M: 1; a whole number of 2"),
        (lambda: mean_variance(-1.0, 5, 2), "zeta: -1"),
        (lambda: path_variance(1.0, 5, 2, 0), "K: 0"),
        (lambda: path_variance_bound(1.0, 0, 1), "S: 0"),
        (lambda: partial_sum(6, 0, 1.0, 5, 2), "m: 6; at most M = 5"),
        (lambda: partial_sum(1, 2, 1.0, 5, 2), "k: 2; at most K - 1 = 1"),
        (lambda: covariance(1.0, 1), "M: 1"),
    ]:
        with pytest.raises(BadInput, match=line):
            ask()


# Client drift.

DRIFTS = {  # L = 2, sigma = 3, zeta = 1/2, S = 4, K = 5, eta = 1/480, gap = 7, gradient = 3, beta = 2, by hand
    ("sequential", "convex"): (400 * 9 / 4 * 9, 2000 * 9 / 4 / 4, 3 * 2 * 8000 * 7),
    ("sequential", "nonconvex"): (400 * 9 / 4 * 9, 2000 * 9 / 4 / 4, 9 / 4 * 2 * 8000 * 9),
    ("parallel", "convex"): (25 * 9 / 4 * 9, 125 * 3 / 2 / 4, 3 * 2 * 125 * 7),
    ("parallel", "nonconvex"): (25 * 9 / 4 * 9, 125 * 3 / 2 / 4, 3 / 2 * 5 * 125 * 9),
}


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
def test_drift_by_hand(algorithm: str, case: str) -> None:
    p: dict[str, Any] = {"L": 2.0, "sigma": 3.0, "zeta": 0.5, "S": 4, "K": 5, "gap": 7.0, "gradient": 3.0, "beta": 2.0}
    found = drift_bound(algorithm, case, eta=1 / 480, **p)
    wanted = DRIFTS[algorithm, "convex" if case == "strongly_convex" else case]
    assert list(found.terms.values()) == pytest.approx([value / 480**2 for value in wanted])
    assert list(found.terms) == ["noise", "heterogeneity", "optimality"]
    assert found.total == pytest.approx(sum(found.terms.values()))
    assert found.valid is True
    most = 1 / (6 * 2 * 5 * (4 * (2 if case == "nonconvex" else 1) if algorithm == "sequential" else 1))
    assert drift_bound(algorithm, case, eta=most, **p).valid
    with pytest.raises(BadInput, match=r"eta: .*; at most 1/\(6 L "):
        drift_bound(algorithm, case, eta=1.001 * most, **p)
    flags = drift_bound(algorithm, case, eta=np.array([most, 2 * most]), **p, strict=False)
    assert flags.valid.tolist() == [True, False]
    for symbol in ("L", "sigma", "zeta", "S", "K"):
        with pytest.raises(BadInput, match=f"^{symbol}: -1"):
            drift_bound(algorithm, case, eta=most, **p | {symbol: -1})


@pytest.mark.parametrize("case", CASES)
def test_drift_terms_make_the_theorems(case: str) -> None:
    """8/3 L (convex) or 5/6 L^2 times the drift lemma, over b, is the theorem's drift."""
    p = {symbol: NUMBERS[symbol] for symbol in ("L", "sigma", "zeta", "S", "K", "beta")}
    for algorithm in ALGORITHMS:
        whole = bound(algorithm, case, eta_tilde=0.06, **NUMBERS)
        b = {"sequential": 1 / 10, "parallel": 1 / 8}[algorithm] if case == "nonconvex" else 1 / 3
        before = 5 / 6 * p["L"] ** 2 if case == "nonconvex" else 8 / 3 * p["L"]
        rounds = p["S"] * p["K"] if algorithm == "sequential" else p["K"]  # the sums' length: eta sum = eta_tilde mean
        drift = drift_bound(algorithm, case, eta=whole.eta, **p)
        for ours, theirs in (("drift_noise", "noise"), ("drift_heterogeneity", "heterogeneity")):
            assert whole.terms[ours] == pytest.approx(before * drift.terms[theirs] / rounds / b)


# Runs that must obey: quadratics F_m = a_m/2 (x - c_m)^2 in one dimension.


class Quadratics:
    """M clients, exact constants, both algorithms over many runs at once."""

    def __init__(self, M: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.a, self.c = rng.uniform(0.5, 1.0, M), rng.normal(size=M)
        self.best = (self.a * self.c).sum() / self.a.sum()
        self.L, self.mu = float(self.a.max()), float(self.a.min())
        self.zeta = float(np.sqrt(((self.a * (self.best - self.c)) ** 2).mean()))

    def gap(self, x: Any) -> Any:
        return self.a.mean() / 2 * (x - self.best) ** 2

    def round(self, algorithm: str, x: Any, order: Any, K: int, eta: float, noise: Any) -> tuple[Any, Any]:
        """x after a round, runs [N], order [N, S], noise [N, S, K]; and the squared drifts before the steps, summed."""
        start, drift, ends = x, np.zeros_like(x), np.zeros_like(x)
        for m in range(order.shape[1]):
            a, c = self.a[order[:, m]], self.c[order[:, m]]
            x = x if algorithm == "sequential" else start
            for k in range(K):
                drift = drift + (x - start) ** 2
                x = x - eta * (a * (x - c) + noise[:, m, k])
            ends = ends + x
        return (x, drift) if algorithm == "sequential" else (ends / order.shape[1], drift / order.shape[1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("S", "K"), [(1, 3), (2, 1), (4, 4)])
def test_drift_is_within_its_bound(algorithm: str, S: int, K: int) -> None:
    """All orders of 4 clients, exact gradients."""
    quadratic, x = Quadratics(4, 3), 2.0
    order = np.array(list(permutations(range(4))))[:, :S]
    eta = 1 / (6 * quadratic.L * K * (S if algorithm == "sequential" else 1))
    starts = np.full(len(order), x)
    _, drift = quadratic.round(algorithm, starts, order, K, eta, np.zeros((len(order), S, K)))
    p: dict[str, Any] = {"L": quadratic.L, "sigma": 0.0, "S": S, "K": K, "eta": eta}
    limit = drift_bound(algorithm, "convex", zeta=quadratic.zeta, gap=quadratic.gap(x), **p)
    assert 0 < drift.mean() <= limit.total or (S, K) == (1, 1) or K == 1
    gradient = quadratic.a * (x - quadratic.c)
    spread, mean = gradient.std(), abs(gradient.mean())
    assert drift.mean() <= drift_bound(algorithm, "nonconvex", zeta=spread, gradient=mean, **p).total


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("S", [2, 5])
def test_runs_obey_the_theorems(algorithm: str, case: str, S: int) -> None:
    """Noisy runs at the rate of the least bound: the averaged iterate, the same draws for all rounds' weights."""
    M, K, R, N, sigma, start = 5, 3, 40, 300, 0.5, 3.0
    quadratic = Quadratics(M, 1)
    rng = np.random.default_rng(2)
    p: dict[str, Any] = {"L": quadratic.L, "mu": quadratic.mu, "sigma": sigma, "M": M, "S": S, "K": K, "R": R}
    p |= {"D": abs(start - quadratic.best), "A": quadratic.gap(start), "zeta": quadratic.zeta}
    if case == "nonconvex":  # grad F_m - grad F = (a_m - a)(x - x*) + its value at x*: 2 u^2 + 2 v^2
        p |= {"zeta": 2**0.5 * quadratic.zeta, "beta": float((2 * quadratic.a.var()) ** 0.5 / quadratic.a.mean())}
    promised = bound(algorithm, case, **p)
    assert promised.valid
    x = np.full(N, start)
    iterates = [x]
    for _ in range(R):
        order = rng.permuted(np.tile(np.arange(M), (N, 1)), axis=1)[:, :S]
        x, _ = quadratic.round(algorithm, x, order, K, promised.eta, sigma * rng.normal(size=(N, S, K)))
        iterates.append(x)
    runs = np.array(iterates)  # [R + 1, N]
    if case == "nonconvex":
        measured = average((quadratic.a.mean() * (runs - quadratic.best)) ** 2, case).mean()
    else:
        measured = quadratic.gap(average(runs, case, quadratic.mu, promised.eta_tilde)).mean()
    assert 0 < measured < promised.total
