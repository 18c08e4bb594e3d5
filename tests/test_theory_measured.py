"""Runs against the theorems: what is measured stays below what is proved, and falls as the corollaries say, or faster.

Means are over seeds, which are lanes; a mean is held against a bound with four standard errors on top.
"""

from collections.abc import Iterator
from math import ceil
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from baton import constants, datasets
from baton.constants import Objective, measure
from baton.setting import Setting
from baton.theory import ALGORITHMS
from families import OWN, bump_constants, bump_gradient
from measured import CPU, Ratio, drawn, hard, kink, noise, pairs, quadratic, ratios, slope

SURE = 4.0  # standard errors


def below(found: Iterator[Ratio], least: int = 1) -> None:
    """Every measured mean, with its interval, is below its bound."""
    seen = list(found)
    assert len(seen) >= least
    for one in seen:
        assert 0 <= one.measured + SURE * one.error <= one.proved, one


# Random quadratics.


@st.composite
def problems(draw: Any, rounds: int) -> dict[str, Any]:
    """Settings: M, S, K, R, d, conditioning, sigma, zeta_* and the start drawn; R >= 6 L/mu, what the theorem asks."""
    M, d, kappa = draw(st.integers(2, 5)), draw(st.integers(1, 4)), draw(st.floats(1.05, rounds / 6))
    L = draw(st.floats(0.3, 5.0))
    mu = L / kappa
    size = st.just(0.0) | st.floats(0.1, 10.0)
    words = {"dim": d, "L": L, "mu": mu, "zeta": draw(size), "sigma": draw(size), "seed": draw(st.integers(0, 99))}
    own: dict[str, Any] = {}
    if draw(st.booleans()):
        name = "quadratic_random"  # Hessians that commute
        words["delta"] = (L - mu) / 2 * (1.0 if d == 1 else draw(st.floats(0, 1)))
    else:
        name, own = "families:quadratics", OWN["quadratics"]
    spec = f"{name}:" + ",".join(f"{word}={value!r}" for word, value in words.items())
    own = {**own, "model": f"quadratic:start={draw(st.floats(-5, 5))!r}"}
    own |= {"clients": M, "participants": draw(st.integers(1, M)), "local_steps": draw(st.integers(1, 3))}
    R = draw(st.integers(min(rounds, ceil(6.01 * kappa)), rounds))
    return {"dataset": spec, **own, "rounds": R, "eval_every": R}


@settings(max_examples=25)
@given(problems(48), st.floats(0.02, 1.0))
def test_random_quadratics_stay_below(common: dict[str, Any], part: float) -> None:
    """All three cases, S of M, 64 seeds."""
    symbols, values = quadratic(common)
    for algorithm in ALGORITHMS:
        below(ratios(algorithm, symbols, common, values, part, 64), least=12)


@pytest.mark.long
@settings(max_examples=200)
@given(problems(240), st.floats(0.02, 1.0))
def test_many_random_quadratics_stay_below(common: dict[str, Any], part: float) -> None:
    symbols, values = quadratic(common)
    for algorithm in ALGORITHMS:
        below(ratios(algorithm, symbols, common, values, part, 256), least=12)


# A smooth family that is not convex.


@st.composite
def bumpy(draw: Any, rounds: int) -> dict[str, Any]:
    M, size = draw(st.integers(2, 6)), st.just(0.0) | st.floats(0.1, 3.0)
    words = {"dim": draw(st.integers(1, 3)), "depth": draw(st.floats(0.2, 5.0)), "shift": draw(size)}
    words |= {"zeta": draw(size), "sigma": draw(size), "seed": draw(st.integers(0, 99))}
    spec = "families:bumps:" + ",".join(f"{word}={value!r}" for word, value in words.items())
    own = {**OWN["bumps"], "model": f"families:on_bumps:start={draw(st.floats(-3, 3))!r}"}
    own |= {"clients": M, "participants": draw(st.integers(1, M)), "local_steps": draw(st.integers(1, 3))}
    R = draw(st.integers(1, rounds))
    return {"dataset": spec, **own, "rounds": R, "eval_every": R}


def bumps_below(common: dict[str, Any], part: float, seeds: int) -> None:
    data = datasets.load(common["dataset"], common["clients"])
    symbols = {"nonconvex": bump_constants(data, float(common["model"].partition("start=")[2]))}
    for algorithm in ALGORITHMS:
        values = {"nonconvex": lambda x: bump_gradient(data, x)}
        below(ratios(algorithm, symbols, common, values, part, seeds), least=2)


@settings(max_examples=6)
@given(bumpy(20), st.floats(0.02, 1.0))
def test_bumps_stay_below(common: dict[str, Any], part: float) -> None:
    """The mean over rounds of E|grad F|^2, beta = 0, 64 seeds."""
    bumps_below(common, part, 64)


@pytest.mark.long
@settings(max_examples=60)
@given(bumpy(150), st.floats(0.02, 1.0))
def test_many_bumps_stay_below(common: dict[str, Any], part: float) -> None:
    bumps_below(common, part, 256)


def test_the_bumps_constants() -> None:
    """Against autograd: gradients, |F_m''| <= L, and the diversity at random points."""
    setting = Setting(dataset="families:bumps:shift=1,zeta=2,sigma=1", **OWN["bumps"], clients=4)
    objective, data = Objective(setting, CPU), datasets.load(setting.dataset, 4)
    found = bump_constants(data, 2.0)
    everyone = next(objective.groups(range(4)))[1]
    most = 0.0
    for x in torch.from_numpy(np.random.default_rng(1).normal(0, 1.5, (200, 2))):
        each = objective.gradients(x, everyone)
        assert bump_gradient(data, x.numpy()) == pytest.approx(float(each.mean(0).square().sum()))
        most = max(most, float((each - each.mean(0)).square().sum(1).mean()))
        bent = objective.products(x, torch.eye(2, dtype=torch.float64).expand(4, 2, 2), everyone)
        assert float(torch.linalg.eigvalsh(bent).abs().max()) <= found["L"]
        assert float(objective.losses(x, everyone).mean()) >= float(
            objective.losses(objective.start(), everyone).mean() - found["A"]
        )
    assert 0.8 * found["zeta"] ** 2 < most <= found["zeta"] ** 2
    assert (found["L"], found["sigma"], found["beta"]) == (2.0, 1.0, 0.0)


# Regularised logistic regression on digits.


def test_logistic_regression_stays_below() -> None:
    """Measured constants; minibatches drawn with replacement, so that steps are independent as the theorems ask."""
    common = {"dataset": "digits", "partition": "classes:C=4", "clients": 5, "local_steps": 2, "batch_size": 20}
    common |= {"sampling": "replacement", "weight_decay": 2.0, "rounds": 80, "eval_every": 80}
    first = Setting(**common, seed=0)
    case, own = constants.symbols(measure(first, CPU, ["L", "mu", "sigma2", "zeta_star2", "D", "A"], points=1))
    assert case == "strongly_convex"
    objective = Objective(first, CPU)
    whole = objective.together(range(5))
    least = float(objective.losses(objective.start(), whole)) - own["A"]

    def gap(x: np.ndarray) -> np.ndarray:
        flat = torch.from_numpy(x.reshape(-1, x.shape[-1]))
        return np.array([float(objective.losses(point, whole)) - least for point in flat]).reshape(x.shape[:-1])

    both = {"strongly_convex": own, "convex": own}
    for algorithm in ALGORITHMS:
        for S in (5, 2):
            some = {**common, "participants": S}
            below(ratios(algorithm, both, some, dict.fromkeys(both, gap), 0.5, 16, together=True), least=8)


# Slopes: exponents in R, K and M of the tuned error, the best rate of a grid at each point, beside the corollaries'.


def test_sequential_gains_a_factor_of_clients() -> None:
    """L zeta_*^2/(mu^2 P R^2) where drift is all there is, P = M or 1, on the family that attains it.

    Within 0.3 of -1 in M; within 0.4 of -2 in R, which logarithms make less steep.
    """
    R, M = (100, 200, 400), (2, 4, 8)
    sequential, parallel = {m: kink("sequential", m, 1, R, 16) for m in M}, kink("parallel", 2, 4, R, 1)
    assert abs(slope(M, [sequential[m][-1] for m in M]) + 1) < 0.3
    assert kink("parallel", 6, 4, R[:1], 1) == pytest.approx(kink("parallel", 2, 4, R[:1], 1))
    for errors in (sequential[4], parallel):
        assert abs(slope(R, errors) + 2) < 0.4
    for m in M:
        assert sequential[m][-1] < 3 / m * parallel[-1]


def test_on_quadratics_sequential_gains_more() -> None:
    """Found, not promised: with curvature that does not change, steps to both sides of the optimum cancel.

    Parallel errors are as the corollary says. Sequential ones fall faster than 1/M, and with K, which is not in it.
    """
    R, M = (200, 400, 800), (2, 4, 8)
    sequential, parallel = {m: pairs("sequential", m, 1, R, 16) for m in M}, pairs("parallel", 2, 4, R, 1)
    assert abs(slope(R, parallel) + 2) < 0.5
    assert pairs("parallel", 6, 4, R[:1], 1) == pytest.approx(pairs("parallel", 2, 4, R[:1], 1))
    assert slope(M, [sequential[m][-1] for m in M]) < -1.4
    assert slope((1, 8), [sequential[2][-1], pairs("sequential", 2, 8, R, 16)[-1]]) < -0.8


def test_noise_falls_with_all_steps() -> None:
    """sigma^2/(mu S K R): within 0.25 of -1 in S and K; within 0.4 in R, because of the logarithm."""
    R = (40, 80, 160)
    errors = noise("parallel", 4, 1, R, 48)
    assert abs(slope(R, errors) + 1) < 0.4
    assert abs(slope((1, 4), [errors[-1], noise("parallel", 4, 4, R, 48)[-1]]) + 1) < 0.25
    assert abs(slope((4, 12), [errors[-1], noise("parallel", 12, 1, R, 48)[-1]]) + 1) < 0.25
    assert noise("sequential", 4, 1, R, 48) == pytest.approx(errors, rel=0.15)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_participation_falls_with_rounds_alone(algorithm: str) -> None:
    """(M - S)/(S (M - 1)) zeta_*^2/(mu R): within 0.4 of -1 in R, 0.05 of 0 in K, 0.25 of 1 in (M - S)/S."""
    R = (40, 80, 160)
    errors = drawn(algorithm, 2, 1, R, 48)
    assert abs(slope(R, errors) + 1) < 0.4
    assert abs(slope((1, 4), [errors[-1], drawn(algorithm, 2, 4, R, 48)[-1]])) < 0.05
    assert abs(slope((7 / 2, 3 / 6), [errors[-1], drawn(algorithm, 6, 1, R, 48)[-1]]) - 1) < 0.25


@pytest.mark.long
def test_slopes_over_a_longer_range() -> None:
    """The same with more rounds, clients and seeds: within 0.2 in M, 0.25 in K, and in R 0.3 for drift, 0.25 else."""
    R, M = (200, 400, 800, 1600), (2, 4, 8, 16)
    sequential, parallel = {m: kink("sequential", m, 1, R, 32, 12) for m in M}, kink("parallel", 2, 8, R, 1, 12)
    assert abs(slope(M, [sequential[m][-1] for m in M]) + 1) < 0.2
    for errors in (*sequential.values(), parallel):
        assert abs(slope(R[1:], errors[1:]) + 2) < 0.4
    assert abs(slope((8, 32), [parallel[-1], kink("parallel", 2, 32, R, 1, 12)[-1]])) < 0.25
    assert abs(slope((1, 4), [sequential[4][-1], kink("sequential", 4, 4, R, 32, 12)[-1]])) < 0.25
    quadratics = {m: pairs("sequential", m, 1, R, 32, 12) for m in M}
    assert -2.1 < slope(M, [quadratics[m][-1] for m in M]) < -1.5
    for algorithm in ALGORITHMS:
        long = (120, 240, 480, 960)
        assert abs(slope(long, noise(algorithm, 4, 1, long, 64, 12)) + 1) < 0.25
        assert abs(slope(long, drawn(algorithm, 2, 1, long, 64, 12)) + 1) < 0.25


@pytest.mark.long
def test_convex_slopes_on_functions_that_get_harder() -> None:
    """(L zeta_*^2 D^4/P)^(1/3)/R^(2/3), one function an R: within 0.15 of -2/3 in R and of -1/3 in M."""
    R, M = (100, 200, 400, 800), (2, 8, 32)
    assert abs(slope(R, [hard("parallel", 2, 8, r, 1) for r in R]) + 2 / 3) < 0.15
    errors = {m: [hard("sequential", m, 1, r, 16) for r in (R[:3] if m < 32 else R[2:3])] for m in M}
    assert abs(slope(R[:3], errors[8]) + 2 / 3) < 0.15
    assert abs(slope(M, [errors[m][-1] for m in M]) + 1 / 3) < 0.15
