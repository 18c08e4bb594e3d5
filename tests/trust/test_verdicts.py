"""Verdicts: intervals hold the draw of test rows for every metric, winners all pairs, and every page says the same."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import baton
import handmade
from baton import study
from baton.advice import Candidate, Measure
from baton.advice import verdict as advise
from baton.cli import app
from baton.comparison import Comparison
from baton.report import report
from baton.seam import State
from baton.store import History, Snapshot, Store
from baton.study import Study
from baton.watch import Live

pytestmark = pytest.mark.trust

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(400, 4)).astype(np.float32)
SCORE = X @ np.array([1.0, -1.0, 0.5, 0.0]) + DRAW.normal(size=400)
SITES = np.arange(400) % 4
TRAINED: dict[str, Any] = {"rounds": 4, "eval_every": 4, "lr": 0.1, "seeds": 2, "quiet": True}
OF_CLASSES = "accuracy,loss,auc,f1,brier,balanced_accuracy,sensitivity,specificity,calibration"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def compared(metric: str, store: Path, **changes: Any) -> Comparison:
    labels = (SCORE > 0).astype(int)
    data = baton.Data(X[:200], labels[:200], SITES[:200], (X[200:], labels[200:], SITES[200:]))
    return baton.compare(metric=metric, runs=store, **{**TRAINED, "dataset": data, "metrics": OF_CLASSES, **changes})


@pytest.mark.parametrize(
    "metric",
    [
        "test_loss", "test_auc", "test_f1", "test_brier", "test_balanced_accuracy", "test_sensitivity",
        "test_specificity", "site_accuracy_mean", "site_auc_mean", "site_f1_mean", "site_loss_mean",
    ],
)  # fmt: skip
def test_an_interval_holds_the_draw_of_test_rows(metric: str, store: Path) -> None:
    (pair,) = compared(metric, store).pairs
    assert pair.difference.rows is not None, f"the rows' error of {metric} is left out"
    assert pair.difference.rows.error > 0
    assert 12.706 * pair.difference.seed_error < pair.difference.half < math.inf


@pytest.mark.parametrize("metric", ["test_mse", "test_mae", "test_r2", "test_loss"])
def test_an_interval_of_predicted_numbers_holds_the_draw_of_test_rows(metric: str, store: Path) -> None:
    data = baton.Data(X[:200], SCORE[:200], SITES[:200], (X[200:], SCORE[200:], SITES[200:]))
    (pair,) = baton.compare(metric=metric, runs=store, **{**TRAINED, "dataset": data, "metrics": "mse,mae,r2"}).pairs
    assert pair.difference.rows is not None, f"the rows' error of {metric} is left out"
    assert 12.706 * pair.difference.seed_error < pair.difference.half < math.inf


@pytest.mark.parametrize(
    "metric", ["site_auc_worst", "site_accuracy_best", "site_loss_spread", "test_calibration", "site_calibration_mean"]
)
def test_where_other_rows_are_unknown_there_is_no_interval(metric: str, store: Path) -> None:
    found = compared(metric, store, seeds=4)
    assert (found.winner, found.pairs[0].difference.half) == (None, math.inf)
    assert found.verdict.lower().startswith("no winner")


def test_a_metric_of_ones_own_that_gives_no_number_a_row_names_no_winner(store: Path) -> None:
    found = compared("test_widest", store, seeds=4, metrics="user_modules:widest")
    assert (found.winner, found.pairs[0].difference.half) == (None, math.inf)


def test_two_that_never_differ_have_no_interval(store: Path) -> None:
    found = compared("test_accuracy", store, algorithms=["parallel", "fedprox:mu=0"])
    assert (found.winner, found.pairs[0].difference.half) == (None, math.inf)


@pytest.mark.parametrize("metric", ["test_auc", "test_f1"])
def test_too_few_rows_of_a_class_name_no_winner(metric: str, store: Path) -> None:
    labels = (SCORE > 0).astype(int)
    test = np.concatenate([np.flatnonzero(labels == 0)[-150:], np.flatnonzero(labels == 1)[-4:]])
    data = baton.Data(X[:200], labels[:200], test=(X[test], labels[test]))
    found = compared(metric, store, dataset=data, metrics="auc,f1", partition="iid", clients=4)
    assert found.pairs[0].difference.half == math.inf
    assert "4 test rows" in found.verdict


METHODS = ["sequential", "parallel", "fedprox", "scaffold", "feddyn", "fednova"]


def filled(store: Store, scores: dict[str, list[float]], metric: str) -> Study:
    """A study whose runs ended so, by hand: training data stay as they are, so that seeds are all that is drawn."""
    seeds = list(range(1, 1 + len(next(iter(scores.values())))))
    table = {"base": {"rounds": 2, "eval_every": 2}, "axes": {"algorithm": list(scores), "seed": seeds}}
    found = study.parse("made", table | {"report": {"metric": metric, "last": 1}})
    for s in found.settings:
        value = next(own for name, own in scores.items() if s.algorithm.partition(":")[0] == name)[s.seed - 1]
        history = History({metric: [(2, np.array([value]))]})
        handmade.finish(store, s, Snapshot(2, State({"x": torch.zeros(1, 1)}), {}, torch.tensor([-1]), history))
    return found


def test_ahead_and_behind_follow_p_values_corrected_for_all_pairs(tmp_path: Path) -> None:
    """The first is better than the last with p = 0.02 alone, and these are two of six."""
    tops = [[90.5] * 5, [90.6, 90.2, 90.1, 90.5, 90.1], [89.8, 90.4, 90.4, 90.0, 90.3], [90.2, 90.4, 89.9, 89.8, 90.2]]
    tops += [[90.0, 89.8, 90.4, 89.9, 90.4], [90.2, 90.2, 89.6, 90.3, 89.6]]
    scores = dict(zip(METHODS, tops, strict=True))
    store = Store(tmp_path / "runs")
    page = report([filled(store, scores, "train_accuracy")], store, tmp_path / "out").read_text()
    head, *rows = csv.reader((tmp_path / "out" / "made-verdict.csv").read_text().splitlines())
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert min(float(row["p"]) for row in found) < 0.05  # one at least would do alone
    assert [row["ahead"] for row in found] == ["0"] * 5
    assert " behind" not in page.partition("</head>")[2].partition("<table")[0]


def test_a_line_is_bold_where_the_corrected_p_says_so(tmp_path: Path) -> None:
    """Three lines: the first is ahead of both with p = 0.02 and 0.04, each alone."""
    scores = {"sequential": [90.0, 91.0, 92.0, 93.0], "parallel": [89.5, 89.6, 91.4, 92.0]}
    scores["scaffold"] = [89.4, 90.5, 90.4, 92.2]
    store = Store(tmp_path / "runs")
    report([filled(store, scores, "train_accuracy")], store, tmp_path / "out")
    head, *rows = csv.reader((tmp_path / "out" / "made-verdict.csv").read_text().splitlines())
    alone = [float(dict(zip(head, row, strict=True))["p"]) for row in rows]
    assert all(0.05 / 3 < p < 0.05 for p in alone)
    assert "**" not in (tmp_path / "out" / "made.md").read_text()


def test_watch_and_report_say_the_same_of_a_finished_study(tmp_path: Path) -> None:
    toml = tmp_path / "small.toml"
    toml.write_text(
        '[base]\nrounds = 6\neval_every = 2\nclients = 10\nparticipants = 5\npartition = "exdir:C=2,alpha=1"\n'
        '[axes]\nalgorithm = ["sequential", "parallel"]\nlr = [0.1]\nseed = [1, 2, 3]\n'
        '[report]\nmetric = "test_accuracy"\nlast = 1\n'
    )
    shown, store = study.read(toml), Store(tmp_path / "runs")
    baton.run(shown.settings, tmp_path / "runs", quiet=True)
    line = ["report", str(toml), "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, line).exit_code == 0
    live = Live([shown], store).look().files
    for name in ("small.md", "small-verdict.csv", "small-verdict.md"):
        assert live[name]() == (tmp_path / "out" / name).read_bytes(), f"{name}: watch and report disagree"


ACCURACY = Measure("test_accuracy", 1, False, 1.0)


def test_advice_calls_nothing_more_than_its_interval_shows() -> None:
    """3.5 points with a standard error of 2.5, and an interval from -28 to 35."""
    sides = {"sequential": [Candidate("sequential", 0.1, 0.0, ((56.0,), (51.0,)))]}
    sides["parallel"] = [Candidate("parallel", 0.1, 0.0, ((50.0,), (50.0,)))]
    found = advise(sides, ACCURACY)
    assert found.apart is not None
    assert found.apart.low < 0 < found.apart.high
    assert found.sure == "too close to call"


def test_advice_on_several_algorithms_is_corrected_for_all_pairs() -> None:
    """The best is ahead of the next with p = 0.02 alone; it was chosen among six."""
    tails = [(55.0, 56.0, 57.0, 58.0), (51.9, 53.1, 56.2, 55.0), *[(40.0, 45.0, 50.0, 55.0)] * 4]
    sides = {n: [Candidate(n, 0.1, 0.0, tuple((x,) for x in t))] for n, t in zip(METHODS, tails, strict=True)}
    found = advise(sides, ACCURACY)
    assert found.apart is not None
    assert 0.01 < found.apart.p < 0.05
    assert found.sure == "too close to call"
