"""Groups of clients that take turns: the exact error against the engine, the bound above it, and how both fall."""

import json
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from baton import cli, datasets
from baton.errors import BadInput
from baton.theory import (
    ALGORITHMS,
    Groups,
    chain,
    groups,
    groups_bound,
    groups_costs,
    groups_error,
    least_error,
    order_bound,
    order_error,
    parted,
)
from families import OWN, kink_gap
from measured import iterates, ordered_kink, quadratic_values, slope

MU, ZETA, START, ETA = 0.5, 2.0, 1.5, 0.05


def problem(pulls: np.ndarray, G: int, **more: Any) -> Groups:
    """That of given pulls, or of gradients at the optimum [M, d]: their two zetas."""
    between, within = parted(pulls - pulls.mean(0), G)
    zeta = float((between**2 + within**2) ** 0.5)
    inside = zeta if G == 1 else 0.0 if len(pulls) == G else within
    return groups(**{"mu": MU, "zeta": zeta, "D": START, "M": len(pulls), "G": G, "within": inside, **more})


def trained(algorithm: str, p: Groups, eta: float, seeds: int, **more: Any) -> np.ndarray:
    """F(x) - F* at the end of runs through the engine, a seed each."""
    R = p.G * p.cycles
    common = {
        "dataset": f"families:pulled:mu={p.mu!r},zeta={ZETA!r}",
        **OWN["pulled"],
        "model": f"quadratic:start={p.D!r}",
        "algorithm": algorithm,
        "schedule": f"cyclic:groups={p.G}",
        "clients": p.M,
        "participants": p.S,
        "local_steps": p.K,
        "rounds": R,
        "eval_every": R,
        **more,
    }
    return p.mu / 2 * iterates(common, [eta], seeds)[-1, 0, :, 0] ** 2


def pulls_of(clients: int) -> np.ndarray:
    return datasets.load(f"families:pulled:mu={MU!r},zeta={ZETA!r}", clients).x[:, 1].numpy()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("G", "S", "schedule"), [(3, 2, ""), (3, 4, ""), (1, 4, ""), (1, 4, "shuffled"), (12, 1, "")])
def test_the_engine_comes_to_the_exact_error(algorithm: str, G: int, S: int, schedule: str) -> None:
    """Every client another pull; a group is as S of M drawn anew each round."""
    pulls = pulls_of(12)
    p = problem(pulls[:, None], G, S=S, K=3, R=12)
    more = {"schedule": schedule} if schedule else {}
    settled = S * G == 12 and (S == 1 or algorithm == "parallel")
    found = trained(algorithm, p, ETA, 2 if settled else 2000, **more)
    exact = float(groups_error(algorithm, p, np.array(ETA), pulls))
    if settled:
        assert found == pytest.approx(exact, rel=1e-10)
    else:
        assert abs(found.mean() - exact) < 4 * found.std(ddof=1) / len(found) ** 0.5
        assert found.std(ddof=1) / len(found) ** 0.5 < 0.04 * exact


def test_whole_groups_of_one_pull_are_the_natural_order() -> None:
    """Quadratics that have one half of the clients on either side, through the engine, and both closed forms."""
    p = groups(mu=MU, zeta=ZETA, D=START, M=12, G=4, K=3, R=20, within=0)
    for algorithm, steps in (("parallel", 3), ("sequential", 9)):
        more = {"dataset": f"quadratic_sides:mu={MU!r},zeta={ZETA!r}"}
        exact = float(groups_error(algorithm, p, np.array(ETA)))
        assert trained(algorithm, p, ETA, 2, **more) == pytest.approx(exact, rel=1e-10)
        natural = chain(mu=MU, zeta=ZETA, D=START, M=4, K=steps, R=5)
        assert exact == pytest.approx(float(order_error("incremental", natural, np.array(ETA))), rel=1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("G", "N", "S", "cycles"), [(1, 4, 2, 2), (1, 5, 3, 1), (2, 2, 1, 2), (2, 3, 2, 1)])
def test_all_draws_of_few_clients_one_by_one(algorithm: str, G: int, N: int, S: int, cycles: int) -> None:
    """The mean over every draw of every round."""
    pulls, K, eta = np.random.default_rng(1).normal(size=G * N), 2, 0.3
    p = problem(pulls[:, None], G, K=K, R=G * cycles, S=S)
    drawn = [list(permutations(pulls[g * N : (g + 1) * N], S)) for g in range(G)]
    errors = []
    for rounds in product(*(drawn * cycles)):
        x = START - pulls.mean() / MU
        for round in rounds:
            ends = []
            for c in round:
                y = ends[-1] if ends and algorithm == "sequential" else x
                for _ in range(K):
                    y -= eta * (MU * y + c)
                ends.append(y)
            x = ends[-1] if algorithm == "sequential" else float(np.mean(ends))
        errors.append(MU / 2 * (x + pulls.mean() / MU) ** 2)
    assert np.mean(errors) == pytest.approx(float(groups_error(algorithm, p, np.array(eta), pulls)), rel=1e-12)


@pytest.mark.parametrize(("G", "N"), [(4, 2), (3, 3), (2, 5), (1, 6), (4, 1)])
def test_without_pulls_they_are_those_of_the_two_zetas(G: int, N: int) -> None:
    within = ZETA if G == 1 else 0.0 if N == 1 else 1.25
    words = f"families:pulled:mu={MU!r},zeta={ZETA!r},groups={G},within={within!r}"
    pulls = datasets.load(words, G * N).x[:, 1].numpy()
    assert parted(pulls[:, None], G) == pytest.approx(((ZETA**2 - within**2) ** 0.5, within))
    p = groups(mu=MU, zeta=ZETA, D=START, M=G * N, G=G, K=2, R=2 * G, S=(N + 1) // 2, within=within)
    for algorithm in ALGORITHMS:
        given = groups_error(algorithm, p, np.array([0.01, 0.4]), pulls)
        np.testing.assert_allclose(groups_error(algorithm, p, np.array([0.01, 0.4])), given, rtol=1e-9)


def test_at_its_ends_it_is_what_was_there() -> None:
    """All in one group are shuffled anew; groups of one client are the natural order. Error and bound."""
    rates = np.array([1e-5, 0.01, 0.05, 0.5])
    common = {"L": 2.0, "mu": MU, "zeta": ZETA, "sigma": 1.0, "D": START, "M": 6, "K": 3}
    old = chain(**common, R=4)
    one, each = groups(**common, G=1, R=4), groups(**common, G=6, R=24)
    for p, order, algorithms in ((one, "reshuffled", ("sequential",)), (each, "incremental", ALGORITHMS)):
        for algorithm in algorithms:
            np.testing.assert_allclose(groups_bound(algorithm, p, rates), order_bound(order, old, rates), rtol=1e-12)
            np.testing.assert_allclose(groups_error(algorithm, p, rates), order_error(order, old, rates), rtol=1e-9)
    assert groups_bound("parallel", one, np.array([0.6]))[0] == np.inf


@st.composite
def pulled(draw: Any) -> tuple[Groups, np.ndarray]:
    """Pulls of any kind: groups may have spreads of their own."""
    G, N, mu = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.floats(0.05, 3.0))
    G = max(G, 3 - N)  # two clients at least
    many = st.lists(st.floats(-5, 5), min_size=G * N, max_size=G * N)
    pulls = np.array(draw(many))
    more = {"L": mu * draw(st.floats(1.0, 30.0)), "D": draw(st.floats(0, 10)), "K": draw(st.integers(1, 5))}
    return problem(pulls[:, None], G, **more, mu=mu, R=G * draw(st.integers(1, 30)), S=draw(st.integers(1, N))), pulls


@settings(max_examples=200)
@given(pulled(), st.sampled_from(ALGORITHMS), st.floats(0.001, 1.0))
def test_no_error_is_above_its_bound(which: tuple[Groups, np.ndarray], algorithm: str, part: float) -> None:
    p, pulls = which
    eta = np.array([part / p.L])
    bound = groups_bound(algorithm, p, eta)
    assert np.isfinite(bound).all()
    for own in (pulls, None):
        error = groups_error(algorithm, p, eta, own)
        assert (error >= 0).all()
        assert (error <= bound * (1 + 1e-9) + 1e-24).all()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("G", "S", "sigma"), [(2, 1, 0.0), (2, 3, 0.0), (3, 1, 1.0), (1, 2, 1.0)])
def test_runs_of_unlike_quadratics_stay_below_the_bound(algorithm: str, G: int, S: int, sigma: float) -> None:
    """Hessians of no common basis, four dimensions, 200 seeds."""
    L, mu, zeta, M, K, R = 2.0, 0.5, 3.0, 6, 3, 24
    words = f"families:quadratics:dim=4,L={L},mu={mu},zeta={zeta},sigma={sigma}"
    common = {"dataset": words, **OWN["quadratics"], "model": "quadratic:start=0.5", "algorithm": algorithm}
    common |= {"schedule": f"cyclic:groups={G}", "clients": M, "participants": S, "local_steps": K, "rounds": R}
    data = datasets.load(words, M)
    assert data.optimum is not None
    star = data.optimum.x.numpy()
    rows = data.x.numpy()
    gradients = rows[:, :16].reshape(M, 4, 4) @ star + rows[:, 16:20]
    for eta in (0.01, 0.06):
        runs = iterates({**common, "eval_every": R}, [eta], 200)[:, 0]
        values = quadratic_values(words, M)["convex"](runs[-1])
        D = float(np.linalg.norm(runs[0, 0] - star))
        p = problem(gradients, G, L=L, mu=mu, sigma=sigma, D=D, K=K, R=R, S=S)
        assert p.between**2 + p.within**2 == pytest.approx(zeta**2)
        assert values.mean() + 4 * values.std() / 200**0.5 < float(groups_bound(algorithm, p, np.array(eta)))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("G", "S"), [(1, 4), (2, 2)])
def test_runs_where_curvature_jumps_stay_below_the_bound(algorithm: str, G: int, S: int) -> None:
    common = {"dataset": "families:kinked:zeta=4", **OWN["kinked"], "model": "families:on_kink:start=-1"}
    common |= {"algorithm": algorithm, "schedule": f"cyclic:groups={G}", "clients": 8, "participants": S}
    data = datasets.load(common["dataset"], 8)
    p = problem(np.tile([4.0, -4.0], 4)[:, None], G, L=2.0, mu=1.0, D=1.0, K=2, R=20, S=S)
    for eta in (0.01, 0.1):
        runs = iterates({**common, "local_steps": 2, "rounds": 20, "eval_every": 20}, [eta], 200)[-1, 0]
        values = kink_gap(data, runs)
        assert values.mean() + 4 * values.std() / 200**0.5 < float(groups_bound(algorithm, p, np.array(eta)))


def at_best(what: str, algorithm: str, **symbols: Any) -> float:
    """The least error on the quadratics, or the least bound."""
    p = groups(**{"L": 1.0, "mu": 0.5, "zeta": 2.0, "D": 1.0, "M": 24, "G": 4, "K": 3, "R": 400, **symbols})
    return float(getattr(groups_costs(p)[ALGORITHMS.index(algorithm)], what).error)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("what", ["quadratics", "bound"])
def test_how_they_fall(what: str, algorithm: str) -> None:
    """Whole groups (R/G)^-2, with logarithms to the power of it; S of a group 1/(S R) times (N - S)/(N - 1)."""
    R, S, G = [400, 800, 1600, 3200], [1, 2, 3], [2, 4, 8]
    whole = slope(R, [at_best(what, algorithm, R=r) for r in R])
    assert -2 <= whole <= -1.6
    some = slope(R, [at_best(what, algorithm, R=r, S=1) for r in R])
    assert -1 <= some <= -0.8
    part = [at_best(what, algorithm, S=s, R=3200) / ((6 - s) / 5) for s in S]
    assert slope(S, part) == pytest.approx(-1, abs=0.25)
    if what == "quadratics":
        assert slope(G, [at_best(what, algorithm, G=g, within=0) for g in G]) == pytest.approx(-whole, abs=0.2)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_between_bound_and_quadratics_is_a_constant(algorithm: str) -> None:
    """Where L = mu; side by side the bound has a drift that common curvature does not."""
    for S, most in ((1, 4), (2, 4), (4, 10)):
        R = (200, 3200)
        factors = [
            at_best("bound", algorithm, **symbols) / at_best("quadratics", algorithm, **symbols)
            for symbols in ({"L": None, "mu": 1.0, "M": 8, "G": 2, "K": 2, "S": S, "R": r} for r in R)
        ]
        assert min(factors) >= 1
        assert max(factors) < min(most, 1.3 * min(factors))


def test_where_curvature_jumps_parallel_legs_drift_as_their_bound() -> None:
    """All clients side by side, through the engine; nothing is drawn."""
    R = (100, 400)
    found = ordered_kink("shuffled", 4, 4, R, 1, 20, "parallel")[0]
    symbols = {"L": 2.0, "mu": 1.0, "zeta": 4.0, "D": 1.0, "M": 4, "G": 1, "K": 4}
    factors = [groups_costs(groups(**symbols, R=r))[1].bound.error / e for r, e in zip(R, found, strict=True)]
    assert -2 <= slope(R, found) <= -1.5
    assert 1 < factors[0] < factors[1] < 1.3 * factors[0] < 100


def test_the_draw_costs_what_replacement_does_but_for_what_a_group_leaves() -> None:
    """Groups of many clients, one of them drawn: as with replacement, only the spread within counts."""
    p = chain(mu=1, zeta=2, D=1, M=100, K=2, R=20)
    drawn = least_error(order_error, "replacement", p).error
    cyclic = groups_costs(groups(mu=1, zeta=2, D=1, M=100, G=2, K=2, R=2000, S=1, within=2))[0]
    assert cyclic.falls_as == "1/(M R)"
    assert cyclic.quadratics.error == pytest.approx(drawn, rel=0.01)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"G": 4}, "groups: 4; a divisor of M = 6"),
        ({"G": 0}, "groups: 0; a divisor of M = 6"),
        ({"S": 4}, "S: 4; 1 to M/G = 3"),
        ({"R": 3}, "R: 3; a multiple of G = 2: whole cycles"),
        ({"within": 2}, "within: 2; 0 to zeta = 1"),
        ({"within": -1}, "within: -1; 0 to zeta = 1"),
        ({"G": 6, "R": 6, "within": 0.5}, "within: 0.5; 0, where a group is one client"),
        ({"G": 1, "within": 0.5}, "within: 0.5; zeta = 1, where all are one group"),
        ({"mu": 0}, "mu: 0; above 0"),
        ({"M": 1, "G": 1}, "M: 1; 2 or more"),
    ],
)
def test_bad_symbols(more: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput, match="^" + line):
        groups(**{"mu": 1.0, "zeta": 1.0, "D": 1.0, "M": 6, "K": 1, "R": 4, "G": 2, **more})


@pytest.mark.parametrize(
    ("words", "falls_as"),
    [
        ("--groups 2 -S 1", ["1/(M R)"] * 2),
        ("--groups 2", ["1/R^2"] * 2),
        ("--groups 2 -S 1 --within 0", ["1/R^2"] * 2),
        ("--groups 2 --within 2", ["1/(M G^2 R^3)", "exp(-R)"]),
        ("--groups 1", ["1/(M R^3)", "exp(-R)"]),
    ],
)
def test_the_command(words: str, falls_as: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    def typed(*more: str) -> str:
        every = ["orders", "--zeta", "2", "-R", "100", *words.split(), *more]
        return CliRunner().invoke(cli.app, every, catch_exceptions=False).stdout

    shown = typed()
    assert max(map(len, shown.splitlines())) <= 80
    assert "cyclic, chain" in shown
    assert "cyclic, parallel" in shown
    found = json.loads(typed("--json"))
    rows = [row for row in found["orders"] if row["order"] == "cyclic"]
    assert [row["algorithm"] for row in rows] == list(ALGORITHMS)
    assert [row["falls_as"] for row in rows] == falls_as
    assert all(row["quadratics"] < row["bound"] for row in rows)
    assert found["groups"]["between"] ** 2 + found["groups"]["within"] ** 2 == pytest.approx(4)
    with pytest.raises(BadInput, match="groups: 3; a divisor of M = 10"):
        typed("--groups", "3")


@pytest.mark.parametrize("groups", ["1", "2"])
def test_the_figure(groups: str, tmp_path: Path) -> None:
    """One group in parallel has an error that is 0 to all digits: no point of the figure."""
    words = ["orders", "-R", "1000", "-M", "4", "-K", "1", "--groups", groups, "--out", str(tmp_path / "orders.svg")]
    assert CliRunner().invoke(cli.app, words, catch_exceptions=False).exit_code == 0
    assert (tmp_path / "orders.svg").stat().st_size > 10_000


def test_within_needs_groups() -> None:
    with pytest.raises(BadInput, match=r"within: 1; .* --groups G beside it is right"):
        CliRunner().invoke(cli.app, ["orders", "--within", "1"], catch_exceptions=False)
