"""Table 1 as numbers and in print, and `baton bounds` as typed."""

import doctest
import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from baton import cli
from baton.paper import table as paper_table
from baton.theory import (
    ALGORITHMS,
    CASES,
    TERMS,
    bound,
    latex,
    markdown,
    orders,
    related,
    table,
)
from formulas import COMMON, CONSTANTS, NUMBERS, Formulas, floats, source

PAIRS = list(product(ALGORITHMS, CASES))


# Table 1.


@pytest.fixture(scope="module")
def paper() -> str:
    return source()


def test_table_numbers_are_its_formulas() -> None:
    rows = table(sigma_star=0.9, zeta_star=0.5, **CONSTANTS)
    assert len(rows) == 12
    for row in rows:
        text = row.formula.replace(r"\zeta_\ast", "z").replace(r"\sigma_\ast", "s")
        wanted = Formulas(text, CONSTANTS | {"z": 0.5, "s": 0.9}).value()
        assert row.total == pytest.approx(wanted, rel=1e-12), row.label()
        assert row.total == pytest.approx(sum(row.terms.values()))


def test_table_has_all_rows_of_the_papers() -> None:
    rows = [row for row in table(**CONSTANTS) if row.method != "sgd-rr"]
    theirs = paper_table("bounds")
    assert [(row.method, row.source, row.formula) for row in rows] == [
        (row["method"], row["source"], row["upper_bound"]) for row in theirs
    ]
    assert [row.assumptions or None for row in rows] == [row["assumptions"] for row in theirs]
    assert [row.case for row in rows] == [row["case"].replace(" ", "_").replace("-", "") for row in theirs]


def test_sgd_rr_is_the_papers(paper: str) -> None:
    line = next(text for text in paper.splitlines() if "the upper bounds of SGD-RR are" in text)
    line = line.partition("the upper bounds of SGD-RR are")[2].partition("for the strongly convex")[0]
    line = re.sub(
        r"\{\\color\{(?:blue|red)\}(?:\\boldsymbol\{M\}|(\\frac\{L\}\{\\mu\}))\}", r"\1", line.replace("M}}R", "M}}MR")
    )
    formulas = re.findall(r"\\gO\\left\((.*?)\\right\)\$", line)
    rows = [row for row in table(**CONSTANTS) if row.method == "sgd-rr"]
    assert [row.case for row in rows] == list(CASES)
    for row, formula in zip(rows, formulas, strict=True):
        assert row.total == pytest.approx(Formulas(formula, CONSTANTS).value(), rel=1e-12)


def test_sgd_rr_is_sequential_with_one_exact_step() -> None:
    plain = {symbol: value for symbol, value in NUMBERS.items() if symbol != "S"} | {"K": 1, "sigma": 0.0, "beta": 0.0}
    for row in table(**plain):
        if row.method == "sgd-rr" and row.case != "strongly_convex":
            assert row.total == pytest.approx(sum(orders("sequential", row.case, **plain).values()))


def test_table_in_print() -> None:
    rows = table(**CONSTANTS)
    lines = markdown(rows).splitlines()
    assert sum(line.startswith("| ") for line in lines) == 1 + 12
    assert all(line.count("|") == 5 for line in lines if line.startswith("|"))
    assert sum(line.startswith("[") for line in lines) == 5
    text = latex(rows)
    assert text.count("{") == text.count("}")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert text.replace(r"\$", "").count("$") % 2 == 0
    assert text.count(r"\displaystyle") == 12
    assert "_*" not in text
    assert [row.method for row in table("convex", "parallel", **CONSTANTS)] == ["parallel"] * 2


# The command line.


def baton(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "baton", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return done


def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Output and complaint of a command, in this process."""
    monkeypatch.setattr(sys, "argv", ["baton", "bounds", *words])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit) as left:
        cli.main()
    out, err = capsys.readouterr()
    assert left.value.code in (0, None) if not err else left.value.code == 2
    return out, err


FLAGS = ["--L", "2", "--mu", "0.5", "--sigma", "3", "--zeta", "0.5", "--beta", "0", "--D", "4", "--A", "5"]
FLAGS += ["-M", "5", "-K", "10", "-R", "100"]


def test_as_typed() -> None:
    words = ["--algorithm", "sequential", "--case", "convex", "-S", "2", "--eta-tilde", "0.08", "--json"]
    found = json.loads(baton("bounds", *words, *FLAGS).stdout)
    wanted = bound("sequential", "convex", eta_tilde=0.08, **floats(COMMON | {"S": 2}))
    assert found["total"] == wanted.total
    assert list(found["terms"]) == list(TERMS)
    assert found["terms"] == wanted.terms
    assert (found["eta_tilde"], found["eta"], found["valid"]) == (0.08, 0.004, True)
    assert found["constants"]["S"] == 2
    assert found["corollary"]["orders"] == orders("sequential", "convex", **floats(COMMON | {"S": 2}))


@pytest.mark.parametrize(("algorithm", "case"), PAIRS)
def test_the_rate_may_be_left_out(monkeypatch: Any, capsys: Any, algorithm: str, case: str) -> None:
    out, _ = typed(monkeypatch, capsys, "--algorithm", algorithm, "--case", case, *FLAGS, "--json")
    found, wanted = json.loads(out), bound(algorithm, case, **floats(COMMON))
    assert found["eta_tilde"] == wanted.eta_tilde
    assert found["total"] == wanted.total
    assert found["minimised"]
    assert found["total"] <= found["corollary"]["total"]
    shown, _ = typed(monkeypatch, capsys, "--algorithm", algorithm, "--case", case, *FLAGS)
    assert f"largest term: {wanted.dominant()}" in shown
    assert f"eta = eta_tilde/{'(S K)' if algorithm == 'sequential' else 'K'} = {wanted.eta:.4g}" in shown
    assert f"eta_tilde = {wanted.eta_tilde:.4g} (the least bound's" in shown
    assert all(name in shown for name in TERMS)
    assert "not in this case: " in shown


def test_not_strict(monkeypatch: Any, capsys: Any) -> None:
    out, err = typed(monkeypatch, capsys, "-R", "10")
    assert (out, err) == ("", "baton: R: 10; at least 6 L/mu = 60 is right\n")
    out, _ = typed(monkeypatch, capsys, "-R", "10", "--no-strict", "--json")
    assert json.loads(out)["valid"] is False
    assert json.loads(out)["reasons"][0] == "R: 10; at least 6 L/mu = 60 is right"
    out, _ = typed(monkeypatch, capsys, "-R", "10", "--no-strict")
    assert "not a bound here: R: 10; at least 6 L/mu = 60 is right" in out
    out, _ = typed(monkeypatch, capsys, "-S", "0", "--no-strict", "--json")  # no nan in JSON
    assert json.loads(out, parse_constant=pytest.fail)["valid"] is False
    out, _ = typed(monkeypatch, capsys, "--eta-tilde", "0.001", "--json")  # the proof's own condition: flagged
    assert json.loads(out)["valid"] is False


def test_the_table_as_typed(monkeypatch: Any, capsys: Any) -> None:
    flags = ["--table", *FLAGS, "--zeta-star", "0.25"]
    given = floats({s: v for s, v in COMMON.items() if s not in ("S", "beta")})
    rows = table(zeta_star=0.25, **given)
    out, _ = typed(monkeypatch, capsys, *flags, "--json")
    found = json.loads(out)
    assert [row["total"] for row in found["rows"] if not row["beside"]] == [row.total for row in rows]
    assert [row["source"] for row in found["rows"] if row["beside"]][:2] == ["cho2023convergence"] * 2
    assert found["constants"]["zeta_star"] == 0.25
    rows += related(**given | {"zeta": 0.25})
    out, _ = typed(monkeypatch, capsys, *flags, "--latex")
    assert out == latex(rows) + "\n"
    out, _ = typed(monkeypatch, capsys, *flags, "--markdown")
    assert out == markdown(rows) + "\n"
    out, _ = typed(monkeypatch, capsys, *flags)
    assert sum(line.startswith(("PFL", "SFL", "SGD-RR")) for line in out.splitlines()) == 16
    assert "L = 2, mu = 0.5" in out
    out, _ = typed(monkeypatch, capsys, "--table", "--case", "convex")
    assert sum(line.startswith(("PFL", "SFL", "SGD-RR")) for line in out.splitlines()) == 4


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--algorithm", "paralel"], "algorithm: 'paralel' is not known; did you mean 'parallel'?"),
        (["--case", "nonconvexe"], "case: 'nonconvexe' is not known; did you mean 'nonconvex'?"),
        (["--L", "0"], "L: 0; a number above 0 is right"),
        (["--mu", "2"], "mu: 2; at most L = 1 is right"),
        (["--mu", "nan"], "mu: nan; a number above 0 is right"),
        (["--sigma", "-1"], "sigma: -1; a number of 0 or more is right"),
        (["--zeta", "-1"], "zeta: -1; a number of 0 or more is right"),
        (["--D", "-1"], "D: -1; a number of 0 or more is right"),
        (["--case", "nonconvex", "--beta", "-1"], "beta: -1; a number of 0 or more is right"),
        (["--case", "nonconvex", "--A", "-1"], "A: -1; a number of 0 or more is right"),
        (["-M", "1"], "M: 1; a whole number of 2 or more is right"),
        (["-M", "4", "-S", "5"], "S: 5; at most M = 4 is right"),
        (["-K", "0"], "K: 0; a whole number of 1 or more is right"),
        (["-R", "0", "--case", "convex"], "R: 0; a whole number of 1 or more is right"),
        (["--eta-tilde", "1"], "eta_tilde: 1; at most 1/(6 L) = 0.166667 is right"),
        (["--eta-tilde", "0"], "eta_tilde: 0; a number above 0 is right"),
        (["--latex"], "latex: only with --table"),
        (["--zeta-star", "1"], "zeta_star: 1; only with --table: a single bound takes it as zeta or sigma"),
        (["--table", "--latex", "--json"], "table: --latex and --json; one of them is right"),
        (["--table", "--eta-tilde", "0.1"], "eta_tilde: 0.1; Table 1's rates are tuned, leave it out"),
        (["--table", "-S", "3"], "S: 3; Table 1 is for S = M, leave it out"),
        (["--table", "--beta", "1"], "beta: 1.0; Table 1 is for beta = 0, leave it out"),
    ],
)
def test_bad_words(monkeypatch: Any, capsys: Any, words: list[str], line: str) -> None:
    out, err = typed(monkeypatch, capsys, *words)
    assert (out, err) == ("", f"baton: {line}\n")


def test_a_word_for_a_number() -> None:
    assert "--sigma" in baton("bounds", "--sigma", "much", code=2).stderr


def test_theory_needs_no_torch() -> None:
    code = "import sys, baton.theory as t; t.bound('parallel', 'convex', L=1, sigma=1, zeta=1, D=1, M=2, K=1, R=9);"
    code += (
        "t.table('convex', L=1, sigma=1, zeta=1, D=1, M=2, K=1, R=9); print([m for m in sys.modules if 'torch' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/theory.md: its examples give what they say, its figure is drawn by the lines below it."""
    page = Path(__file__).parents[1] / "docs" / "theory.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0
    (code,) = [c for c in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) if "theory-bounds.png" in c]
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"MPLBACKEND": "agg"})
    assert (tmp_path / "theory-bounds.png").stat().st_size > 20_000
