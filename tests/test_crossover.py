"""Where two bounds cross: against the bounds themselves, in closed form where there is one, and as a user types it."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from baton import cli
from baton.theory import OVER, bound, crossover

PROBLEM = {"L": 1.0, "sigma": 1.0, "zeta": 1.0, "beta": 0.0, "A": 1.0, "D": 1.0, "mu": 0.1}
FIXED = PROBLEM | {"M": 20, "S": 3, "K": 5, "R": 1000}


def smaller(case: str, **symbols: float) -> str:
    both = {name: bound(name, case, strict=False, **symbols).total for name in ("sequential", "parallel")}
    return min(both, key=lambda name: both[name])


@given(
    st.sampled_from(["convex", "nonconvex"]),
    st.sampled_from(["K", "R", "S", "zeta"]),
    st.floats(0.1, 10),
    st.floats(0, 10),
    st.sampled_from([2, 5, 20]),
)
def test_the_smaller_bound_changes_hands_there_and_nowhere_else(
    case: str, over: str, zeta: float, sigma: float, clients: int
) -> None:
    symbols = FIXED | {"zeta": zeta, "sigma": sigma, "M": clients, "S": min(2, clients)}
    found = crossover(case, over, **symbols)
    for crossing in found.crossings:
        assert {crossing.before, crossing.after} == {"sequential", "parallel"}
        step = 1 if over != "zeta" else 1e-6 * crossing.at
        assert smaller(case, **symbols | {over: crossing.at - step}) == crossing.before
        assert smaller(case, **symbols | {over: crossing.at + (0 if over != "zeta" else step)}) == crossing.after
    sides = [smaller(case, **symbols | {over: float(x)}) for x in found.values[::40]]
    changes = sum(a != b for a, b in pairwise(sides))
    assert changes <= len(found.crossings)


def test_without_noise_and_partial_clients_the_crossing_is_known() -> None:
    """Convex, sigma = 0, S = M, one rate h for both: the drifts are 18 L h^2 zeta^2 / S and 12 L h^2 zeta^2."""
    symbols = {"L": 1.0, "sigma": 0.0, "zeta": 1.0, "D": 1.0, "M": 10, "K": 5, "R": 1000}
    found = crossover("convex", "S", eta_tilde=0.01, **symbols | {"M": 10})
    assert found.smaller(0) == "parallel"  # 18 / 1 > 12
    assert [crossing[:] for crossing in found.crossings] == [(2.0, "parallel", "sequential")]  # 18 / 2 < 12
    assert np.isfinite(found.totals["parallel"]).all()


def test_where_there_is_no_bound_nothing_crosses() -> None:
    found = crossover("strongly_convex", "R", **FIXED)
    none = np.isnan(found.totals["sequential"])
    assert none.any()
    assert (found.values[none] < 60).all()  # 6 L / mu
    assert found.reasons[0].startswith("R: ")


def typed(*words: str | Path) -> str:
    done = CliRunner().invoke(cli.app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_command_says_where_and_where_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["crossover", "--over", "S", "-M", "20", "--case", "nonconvex", "--sigma", "1"]
    told, found = typed(*words), json.loads(typed(*words, "--json"))
    (crossing,) = found["crossings"]
    assert f"sequential's is smaller from S = {crossing['at']:.0f} on, parallel's below" in told
    assert max(map(len, told.splitlines())) <= 80
    assert len(found["values"]) == len(found["bounds"]["parallel"]) == 20
    none = typed("crossover", "--over", "K")
    assert "The bounds do not cross over K from 1 to 1,000:\n  sequential's is smaller throughout" in none
    assert json.loads(typed("crossover", "--over", "K", "--json"))["crossings"] == []


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize(("form", "starts"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_figure_of_both(over: str, form: str, starts: bytes, tmp_path: Path) -> None:
    path = tmp_path / "in" / f"x.{form}"
    told = typed("bounds", "-a", "both", "--over", over, "--case", "nonconvex", "--out", path)
    assert path.read_bytes().startswith(starts)
    assert told == typed("crossover", "--over", over, "--case", "nonconvex")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["crossover", "--over", "Q"], "over: 'Q' is not known"),
        (["crossover", "--from", "9", "--to", "3"], "over: K from 9 to 3; two numbers above 0"),
        (["crossover", "--over", "R", "--to", "20"], "over: no bound for any R from 1 to 20"),
        (["crossover", "--out", "x.gif"], "out: 'x.gif'; a name that ends in"),
        (["bounds", "-a", "parallel", "--over", "K"], "-a both is right"),
        (["bounds", "--from", "3"], "--over K, say, is missing"),
        (["bounds", "-a", "both", "--table"], "table: it has both algorithms"),
        (
            ["bounds", "quadratics", "--over", "K"],
            "has constants of its own, so it goes without --over",
        ),
    ],
)
def test_one_line(
    words: list[str], line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["baton", *words])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    shown = capsys.readouterr()
    assert (stop.value.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert line in shown.err
