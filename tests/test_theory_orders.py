"""What orders cost: exact errors against the engine, bounds above them, and how both fall."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from baton import cli
from baton.errors import BadInput
from baton.theory import ORDERS, Chain, chain, least_error, order_bound, order_error
from measured import iterates, ordered_kink, slope

MU, ZETA, START = 0.5, 2.0, 1.5
SHUFFLED = ("once", "reshuffled", "flipflop")


def trained(order: str, p: Chain, eta: float, seeds: int, **more: Any) -> np.ndarray:
    """F(x) - F* at the end of a run through the engine, a seed each."""
    R = p.epochs * p.M // more.get("participants", p.M)
    common = {
        "dataset": f"quadratic_sides:mu={p.mu!r},zeta={p.zeta!r}",
        "model": f"quadratic:start={p.D!r}",
        "algorithm": "sequential",
        "schedule": order,
        "clients": p.M,
        "participants": p.M,
        "local_steps": p.K,
        "rounds": R,
        "eval_every": R,
        **more,
    }
    x = iterates(common, [eta], seeds)[-1, 0, :, 0]
    return p.mu / 2 * x**2


@pytest.mark.parametrize("participants", [6, 2])
@pytest.mark.parametrize("order", ORDERS)
def test_the_engine_comes_to_the_exact_error(order: str, participants: int) -> None:
    p = chain(mu=MU, zeta=ZETA, D=START, M=6, K=3, R=4)
    found = trained(order, p, 0.05, 1 if order == "incremental" else 2000, participants=participants)
    exact = float(order_error(order, p, np.array(0.05)))
    if order == "incremental":
        assert found[0] == pytest.approx(exact, rel=1e-12)
    else:
        assert abs(found.mean() - exact) < 4 * found.std(ddof=1) / len(found) ** 0.5


@pytest.mark.parametrize("order", ["incremental", "once", "reshuffled"])
def test_all_orders_of_few_clients_one_by_one(order: str) -> None:
    """The mean over every permutation, without a draw."""
    p, eta = chain(mu=MU, zeta=ZETA, D=START, M=4, K=2, R=2), 0.3
    fixed = [(1.0, 1.0, -1.0, -1.0)]
    every = fixed if order == "incremental" else list(permutations(fixed[0]))
    errors = []
    for first in every:
        for second in every if order == "reshuffled" else [first]:
            x = START
            for s in (*first, *second):
                for _ in range(p.K):
                    x -= eta * (MU * x + ZETA * s)
            errors.append(MU / 2 * x**2)
    assert np.mean(errors) == pytest.approx(float(order_error(order, p, np.array(eta))), rel=1e-12)


def test_groups_that_take_turns_are_the_natural_order_of_groups() -> None:
    """Cyclic participation, every group whole: parallel legs of K steps, and chains of K S."""
    M, groups, K, cycles, eta = 12, 4, 3, 5, 0.05
    more = {"participants": M // groups, "schedule": f"cyclic:groups={groups}", "rounds": groups * cycles}
    whole = chain(mu=MU, zeta=ZETA, D=START, M=M, K=K, R=cycles)
    for algorithm, steps in (("parallel", K), ("sequential", K * M // groups)):
        found = trained("", whole, eta, 2, **more, algorithm=algorithm, eval_every=groups * cycles)
        p = chain(mu=MU, zeta=ZETA, D=START, M=groups, K=steps, R=cycles)
        assert found == pytest.approx(float(order_error("incremental", p, np.array(eta))), rel=1e-10)


@st.composite
def chains(draw: Any) -> Chain:
    mu, M, R = draw(st.floats(0.05, 3.0)), 2 * draw(st.integers(1, 8)), draw(st.integers(1, 40))
    L = mu * draw(st.floats(1.0, 30.0))
    return chain(L=L, mu=mu, zeta=draw(st.floats(0, 10)), D=draw(st.floats(0, 10)), M=M, K=draw(st.integers(1, 6)), R=R)


@settings(max_examples=200)
@given(chains(), st.sampled_from([*SHUFFLED, "incremental"]), st.floats(0.001, 1.0))
def test_no_error_is_above_its_bound(p: Chain, order: str, part: float) -> None:
    eta = np.array([part / p.L])
    error, bound = order_error(order, p, eta), order_bound(order, p, eta)
    assert np.isfinite(bound).all()
    assert (error <= bound * (1 + 1e-9) + 1e-300).all()
    assert (order_error(order, p, eta) >= 0).all()


@pytest.mark.parametrize("order", SHUFFLED)
def test_runs_of_unlike_quadratics_stay_below_the_bound(order: str) -> None:
    """Hessians that differ, noise, four dimensions; F(x) - F* of 200 seeds."""
    L, mu, zeta, sigma, M, K, R, eta = 2.0, 0.5, 3.0, 1.0, 6, 2, 10, 0.05
    words = f"quadratic_random:dim=4,L={L},mu={mu},zeta={zeta},delta=0.75,sigma={sigma}"
    common = {"dataset": words, "model": "quadratic:start=0.5", "algorithm": "sequential", "schedule": order}
    common |= {"clients": M, "participants": M, "local_steps": K, "rounds": R, "eval_every": R}
    from baton import datasets

    data = datasets.load(words, M)
    assert data.optimum is not None
    least, hessian = data.optimum.x.numpy(), data.optimum.hessian.numpy()
    runs = iterates(common, [eta], 200)[:, 0]
    apart = runs[-1] - least
    values = 0.5 * np.einsum("si,ij,sj->s", apart, hessian, apart)
    D = float(np.linalg.norm(runs[0, 0] - least))
    p = chain(L=L, mu=mu, sigma=sigma, zeta=zeta, D=D, M=M, K=K, R=R)
    assert values.mean() + 4 * values.std() / 200**0.5 < float(order_bound(order, p, np.array(eta)))


def slopes(what: Any, order: str) -> tuple[float, float]:
    """Exponents of the least error in R and in M, by least squares on logarithms."""

    def at(M: int, R: int) -> float:
        return float(np.log(least_error(what, order, chain(L=1, mu=0.5, zeta=2, D=1, M=M, K=3, R=R)).error))

    R, M = np.array([200, 400, 800, 1600]), np.array([4, 8, 16, 32])
    in_R = np.polyfit(np.log(R), [at(8, r) for r in R], 1)[0]
    in_M = np.polyfit(np.log(M), [at(m, 400) for m in M], 1)[0]
    return float(in_R), float(in_M)


@pytest.mark.parametrize(
    ("order", "R", "M"),
    [("incremental", -2, 0), ("once", -2, -1), ("reshuffled", -3, -1), ("flipflop", -5, -1), ("replacement", -1, -1)],
)
def test_errors_fall_as_they_are_said_to(order: str, R: float, M: float) -> None:
    """Logarithms to the power of R's exponent are in them."""
    in_R, in_M = slopes(order_error, order)
    assert 0.8 * R >= in_R >= R
    assert in_M == pytest.approx(M, abs=0.2)


@pytest.mark.parametrize(("order", "M"), [("incremental", 0), ("once", -1), ("reshuffled", -1), ("flipflop", -1)])
def test_bounds_fall_as_one_shuffles_error(order: str, M: float) -> None:
    in_R, in_M = slopes(order_bound, order)
    assert -1.6 >= in_R >= -2
    assert in_M == pytest.approx(M, abs=0.25)


def test_between_bound_and_quadratics_is_a_constant() -> None:
    """The bound of a fixed order and of one shuffle are attained but for constants."""
    for order in ("incremental", "once"):
        factors = []
        for R in (200, 800, 3200):
            p = chain(mu=1, zeta=2, D=1, M=8, K=2, R=R)
            factors.append(least_error(order_bound, order, p).error / least_error(order_error, order, p).error)
        assert max(factors) < 12
        assert max(factors) < 1.25 * min(factors)


def kinks_bound(order: str, M: int, R: int) -> float:
    return least_error(order_bound, order, chain(L=2, mu=1, zeta=4, D=1, M=M, K=1, R=R)).error


def test_where_curvature_jumps_shuffling_anew_falls_as_its_bound() -> None:
    """1/(M R^2), through the engine; quadratics fall as 1/(M R^3). Back and forth is no better there."""
    R = (100, 400)
    found = ordered_kink("reshuffled", 8, 1, R, 32, 10)[0]
    assert -2 <= slope(R, found) <= -1.5
    few, many = (ordered_kink("reshuffled", M, 1, [100], 32, 10)[0, 0] for M in (4, 16))
    assert slope((4, 16), [few, many]) == pytest.approx(-1, abs=0.3)
    assert ordered_kink("flipflop", 8, 1, [400], 32, 10)[0, 0] > 0.6 * found[1]
    assert kinks_bound("reshuffled", 8, 400) > found[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "R", "M"),
    [("incremental", -2, 0), ("once", -2, -1), ("reshuffled", -2, -1), ("flipflop", -2, -1), ("replacement", -1, -1)],
)
def test_where_curvature_jumps_all_orders_fall_as_their_bounds(order: str, R: float, M: float) -> None:
    """And between measured and proved is a constant, within its logarithms; 64 seeds."""
    rounds, clients = (200, 400, 800, 1600), (4, 8, 16, 32)
    in_R = ordered_kink(order, 8, 1, rounds, 64)[0]
    in_M = [ordered_kink(order, m, 1, [400], 64)[0, 0] for m in clients]
    assert 0.7 * R >= slope(rounds, in_R) >= R
    assert slope(clients, in_M) == pytest.approx(M, abs=0.3)
    if order != "replacement":
        factors = np.array([kinks_bound(order, 8, r) for r in rounds]) / in_R
        assert factors.min() > 1
        assert factors.max() < 2 * factors.min()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"M": 5}, "M: 5; even"),
        ({"S": 4}, "S: 4; a divisor of M = 6"),
        ({"S": 2, "R": 4}, "R: 4; a multiple of M/S = 3"),
        ({"mu": 0}, "mu: 0; above 0"),
        ({"L": 0.1}, "L: 0.1; finite and at least mu"),
    ],
)
def test_bad_symbols(more: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput, match="^" + line):
        chain(**{"mu": 1.0, "zeta": 1.0, "D": 1.0, "M": 6, "K": 1, "R": 3, **more})


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    def typed(*words: str) -> str:
        return CliRunner().invoke(cli.app, ["orders", *words], catch_exceptions=False).stdout

    shown = typed("--zeta", "2", "--out", str(tmp_path / "orders.svg"))
    assert max(map(len, shown.splitlines())) <= 80
    assert (tmp_path / "orders.svg").stat().st_size > 10_000
    found = json.loads(typed("--zeta", "2", "--json"))
    assert [row["order"] for row in found["orders"]] == list(ORDERS)
    for row in found["orders"]:
        assert row["order"] in shown
        assert row["order"] == "replacement" or row["quadratics"] < row["bound"]
    with pytest.raises(BadInput, match="M: 7; even"):
        typed("-M", "7")
