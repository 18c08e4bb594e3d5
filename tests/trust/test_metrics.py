"""Which end of a metric is better is the metric's own word; outputs that are no numbers have no metrics."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import baton
from baton import metrics, study
from baton.comparison import Comparison
from baton.datasets.base import cross_entropy
from baton.errors import BadInput

pytestmark = pytest.mark.trust

SITES = {"dataset": "breast_cancer", "rounds": 4, "eval_every": 4, "metrics": "auc,brier,calibration,accuracy"}
Y = torch.tensor([0] * 50 + [1] * 50)
DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(200, 3))
NUMBERS = X @ [1.0, -2.0, 0.5] + 0.1 * DRAW.normal(size=200)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def least_first(found: Comparison) -> bool:
    means = [line.mean for line in found.lines]
    return means == sorted(means) and means[0] < means[1]


@pytest.mark.parametrize(
    "metric", ["site_brier_mean", "site_brier_worst", "site_calibration_mean", "site_auc_spread", "test_calibration"]
)
def test_compare_takes_less_of_an_error_over_sites_for_better(metric: str, store: Path) -> None:
    assert least_first(baton.compare(seeds=2, lr=0.03, metric=metric, runs=store, quiet=True, **SITES))


@pytest.mark.parametrize("metric", ["test_mse", "test_mae"])
def test_compare_takes_less_of_an_error_of_numbers_for_better(metric: str, store: Path) -> None:
    numbers = baton.Data(X, NUMBERS, sites=np.arange(200) % 4)
    setting: dict[str, Any] = {"dataset": numbers, "rounds": 4, "eval_every": 4, "metrics": "mse,mae"}
    assert least_first(baton.compare(seeds=2, lr=0.03, metric=metric, runs=store, quiet=True, **setting))


def test_compare_takes_the_rate_with_the_least_brier_score_over_sites(store: Path) -> None:
    found = baton.compare(seeds=1, lrs=[0.0001, 0.1], metric="site_brier_mean", runs=store, quiet=True, **SITES)
    assert [line.lr for line in found.lines] == [0.1, 0.1]


def reported(metric: str, **report: Any) -> str:
    """Which end of a metric a study takes for better."""
    base = {"dataset": "breast_cancer", "rounds": 1, "metrics": "auc,brier,calibration"}
    return study.parse("own", {"base": base, "report": {"metric": metric, **report}}).report.best


@pytest.mark.parametrize(
    "metric", ["test_loss", "test_brier", "site_calibration_worst", "site_auc_spread", "train_loss"]
)
def test_a_study_that_leaves_best_out_has_the_metrics_own(metric: str) -> None:
    assert reported(metric) == "min"


@pytest.mark.parametrize(
    ("metric", "best"), [("test_brier", "max"), ("site_auc_mean", "min"), ("site_auc_spread", "max")]
)
def test_a_study_against_its_metric_is_refused(metric: str, best: str) -> None:
    with pytest.raises(BadInput, match=rf"^\[report\] best: got '{best}'"):
        reported(metric, best=best)


OWN = """
from baton.metrics import Metric

def sure(task):
    return lambda outputs, labels: float(outputs.softmax(-1).amax(-1).mean())

def unsure(task):
    def of(outputs, labels, weight=None):
        return (1 - outputs.double().softmax(-1).amax(-1)).mean(1)
    return Metric(of, best="min")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "its_metrics.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "its_metrics"


@pytest.mark.parametrize("metric", ["test_sure", "site_sure_mean"])
def test_an_own_metric_that_does_not_say_which_end_is_better_is_refused_before_training(
    own: str, metric: str, tmp_path: Path
) -> None:
    setting = {**SITES, "metrics": f"{own}:sure"}
    with pytest.raises(BadInput, match="best='max'"):
        baton.compare(seeds=1, lrs=[0.03, 0.1], metric=metric, runs=tmp_path / "runs", quiet=True, **setting)
    with pytest.raises(BadInput, match="best='max'"):
        study.parse("own", {"base": setting, "report": {"metric": metric}})
    assert not list((tmp_path / "runs").glob("*/setting.json"))


def test_an_own_metric_that_says_which_end_is_better_is_compared_by_it(own: str, tmp_path: Path) -> None:
    setting = {**SITES, "metrics": f"{own}:unsure"}
    assert least_first(baton.compare(seeds=1, lr=0.03, metric="test_unsure", runs=tmp_path, quiet=True, **setting))


def of(name: str, outputs: torch.Tensor, labels: torch.Tensor = Y) -> float:
    return float(metrics.METRICS[name](metrics.base.Task(2, cross_entropy)).of(outputs[None], labels, None)[0])


@pytest.mark.parametrize("name", ["auc", "accuracy", "balanced_accuracy", "sensitivity", "specificity", "f1"])
def test_outputs_that_are_no_numbers_have_no_metric(name: str) -> None:
    outputs = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    assert math.isfinite(of(name, outputs))
    assert math.isnan(of(name, torch.full((100, 2), math.nan)))
    outputs[3, 1] = math.nan
    assert math.isnan(of(name, outputs))


def test_auc_ranks_by_logits_where_probabilities_round_to_one() -> None:
    score = torch.linspace(1, 3, 100) * 30
    assert of("auc", torch.stack([-score / 2, score / 2], -1)) == 1.0
    assert of("auc", score[:, None]) == 1.0
    three = metrics.METRICS["auc"](metrics.base.Task(3, cross_entropy))
    logits = torch.eye(3)[torch.arange(99) % 3] * 60 + torch.linspace(0, 50, 99)[:, None] * torch.tensor([1.0, 0, 0])
    labels = torch.where(torch.arange(99) < 60, torch.arange(99) % 2 + 1, 0)
    expected = np.mean([_auc(_odds(logits, c), (labels == c).numpy()) for c in range(3)])
    assert float(three.of(logits[None], labels, None)[0]) == pytest.approx(expected)


def _odds(logits: torch.Tensor, c: int) -> np.ndarray:
    others = [i for i in range(3) if i != c]
    return (logits[:, c].double() - logits[:, others].double().logsumexp(-1)).float().numpy()


def _auc(score: np.ndarray, positive: np.ndarray) -> float:
    pairs = score[positive][:, None] - score[~positive][None]
    return float(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def test_a_run_whose_outputs_are_no_numbers_has_diverged(tmp_path: Path) -> None:
    common: dict[str, Any] = {"dataset": "breast_cancer", "model": "mlp:hidden=8", "algorithm": "parallel"}
    (run,) = baton.run(baton.Setting(**common, local_steps=1, rounds=2, eval_every=1, lr=1e17), tmp_path, quiet=True)
    assert run.diverged == 2
    assert np.isnan(run.metrics["test_auc"][-1])
    assert np.isnan(run.metrics["test_accuracy"][-1])
