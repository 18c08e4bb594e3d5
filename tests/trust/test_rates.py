"""What rates are chosen by: rows that clients hold back, never the test set's, and never the untrained model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import baton
import handmade
from baton import clients, datasets, search, study
from baton.cli import app
from baton.errors import BadInput
from baton.report.built import build, table_files
from baton.report.findings import findings
from baton.seam import State
from baton.search.rules import cells
from baton.store import History, Snapshot, Store

pytestmark = pytest.mark.trust


def typed(*line: object) -> str:
    """What a command prints; a mistake is raised."""
    done = CliRunner().invoke(app, [str(word) for word in line])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


SIX = {"dataset": "breast_cancer", "rounds": 20, "eval_every": 4, "lr": 0.1}  # six evaluations, round 0 among them


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of six evaluations a run."""
    return tmp_path_factory.mktemp("six")


@pytest.mark.parametrize("spread", ["interval", "paper"])
def test_a_table_never_averages_the_untrained_model(spread: str, six: Path) -> None:
    made = {"base": SIX, "axes": {"algorithm": ["sequential", "parallel"], "seed": [1, 2]}}
    shown = study.parse("six", {**made, "report": {"spread": spread}})
    runs = baton.run(shown.settings, six, quiet=True)
    table = table_files(build(shown, Store(six)))["six.md"].decode()
    assert "the last 2 evaluations" in table
    for algorithm in ("sequential", "parallel"):
        ends = [run.metrics["test_accuracy"][-2:].mean() for run in runs if run.setting.algorithm == algorithm]
        assert f"{sum(ends) / 2:.2f} ±" in table


def test_a_search_never_averages_the_untrained_model(six: Path) -> None:
    made = {"base": SIX, "axes": {"lr": [0.001, 0.1], "seed": [1]}, "tune": {"method": "simple"}}
    (choice,) = baton.tune(study.parse("search", made), six, quiet=True)
    tried = next(s for s in choice.trained if s.lr == 0.1)
    ends = Store(six).read(tried.run_id).metrics["validation_accuracy"]
    assert len(ends) == 6
    assert choice.stages[-1].scores["lr = 0.1"] == pytest.approx(ends[-2:].mean())


DRAW = np.random.default_rng(3)
ROWS = DRAW.normal(size=(240, 4))
LABELS = (ROWS @ [2.0, -1.0, 0.5, 0.0] + 0.3 * DRAW.normal(size=240) > 0).astype(np.int64)
HOSPITALS = np.array(["bern", "oslo", "rome"])[np.arange(240) % 3]
TESTS = DRAW.normal(size=(90, 4))
TRUTH = (TESTS @ [2.0, -1.0, 0.5, 0.0] > 0).astype(np.int64)
WHERE = np.array(["bern", "oslo", "rome"])[np.arange(90) % 3]


def hospitals(truth: np.ndarray) -> baton.Data:
    """The same training rows, with other labels of the test rows."""
    return baton.Data(ROWS, LABELS, sites=HOSPITALS, test=(TESTS, truth, WHERE))


NAMED = ["site_accuracy_mean", "site_auc_worst", "site_loss_mean", "test_auc", "test_brier", "test_f1"]
TRAINED: dict[str, Any] = {"rounds": 6, "eval_every": 3, "metrics": "accuracy,auc,loss,brier,f1"}


@pytest.mark.parametrize("metric", NAMED)
def test_the_choice_of_compare_stays_where_the_test_labels_are_permuted(metric: str, tmp_path: Path) -> None:
    turned = np.random.default_rng(0).permutation(1 - TRUTH)
    assert (TRUTH.sum(), len(TRUTH)) != (0, turned.sum())
    chosen = []
    for truth in (TRUTH, 1 - TRUTH, turned):
        found = baton.compare(
            seeds=1, lrs=[0.001, 0.3], metric=metric, runs=tmp_path, quiet=True, dataset=hospitals(truth), **TRAINED
        )
        chosen.append({line.name: line.lr for line in found.lines})
    assert chosen[0] == chosen[1] == chosen[2] == {"sequential": 0.3, "parallel": 0.3}


@pytest.mark.parametrize("metric", ["site_accuracy_mean", "test_auc"])
def test_the_choice_of_a_search_stays_where_the_test_labels_are_permuted(metric: str, tmp_path: Path) -> None:
    chosen = []
    for truth in (TRUTH, 1 - TRUTH):
        base = {**TRAINED, "dataset": hospitals(truth).spec}
        made = {"base": base, "axes": {"lr": [0.001, 0.3], "seed": [1]}, "tune": {"method": "simple"}}
        shown = study.parse("search", {**made, "report": {"metric": metric, "last": 1}})
        chosen.append(baton.tune(shown, tmp_path, quiet=True)[0].best)
    assert chosen[0] == chosen[1] != "lr = 0.001"


def test_all_metrics_are_measured_on_what_clients_hold_back(tmp_path: Path) -> None:
    setting = baton.Setting(
        dataset=hospitals(TRUTH), validation=0.25, lr=0.1, **{**TRAINED, "metrics": "auc,f1,per_class"}
    )
    (run,) = baton.run(setting, tmp_path, quiet=True)
    table = clients.build([setting], torch.float32, torch.device("cpu"))[0]
    data = datasets.load(setting.dataset, setting.clients)
    places, owner = table.held[0], table.held_by[0]
    with torch.no_grad():
        scores = run.module()(data.x[places].float())
    labels, margin = data.y[places].numpy(), (scores[:, 1] - scores[:, 0]).numpy()
    assert run.last("validation_auc") == pytest.approx(roc_auc_score(labels, margin))
    each = [roc_auc_score(labels[owner == m], margin[owner == m]) for m in range(3)]
    assert run.last("validation_site_auc_mean") == pytest.approx(np.mean(each))
    assert run.last("validation_site_auc_worst") == pytest.approx(min(each))
    ones = (margin > 0)[labels == 1]
    assert run.last("validation_class_1_accuracy") == pytest.approx(100 * ones.mean())


def test_an_own_metric_is_searched_by_on_what_clients_hold_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_metric.py").write_text(
        "from baton.metrics import Metric\n\n"
        "def hits(task):\n"
        "    def of(outputs, labels, weight=None):\n"
        "        return (outputs.argmax(-1) == labels).double().mean(1)\n"
        "    return Metric(of, best='max')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = baton.compare(
        seeds=1, lrs=[0.001, 0.3], metric="test_hits", runs=tmp_path / "runs", quiet=True,
        dataset=hospitals(1 - TRUTH), **{**TRAINED, "metrics": "their_metric:hits"},
    )  # fmt: skip
    assert {line.lr for line in found.lines} == {0.3}


def test_a_metric_that_no_run_measures_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="test_mse"):
        baton.compare(seeds=1, lrs=[0.1, 0.3], metric="test_mse", runs=tmp_path, quiet=True, dataset="digits", rounds=2)
    assert not list(tmp_path.glob("*/setting.json"))


@pytest.mark.parametrize("tune", [{"on": "test", "method": "simple"}, None])
def test_what_was_chosen_on_the_test_set_says_so(tune: dict[str, str] | None, six: Path) -> None:
    axes = {"algorithm": ["sequential", "parallel"], "lr": [0.01, 0.1], "seed": [1, 2]}
    made: dict[str, Any] = {
        "base": SIX,
        "axes": axes,
        "report": {"spread": "paper"},
        **({"tune": tune} if tune else {}),
    }
    shown = study.parse("seen", made)
    baton.run(shown.settings, six, quiet=True)
    built = build(shown, Store(six))
    files = table_files(built)
    assert "chosen on the test set" in files["seen.md"].decode()
    assert "chosen on the test set" in findings(shown, built.panels)[-1]
    assert not tune or "Chosen on the test set" in files["seen-search.md"].decode()


def test_the_output_of_a_search_on_the_test_set_says_so(six: Path, tmp_path: Path) -> None:
    base = '[base]\ndataset = "breast_cancer"\nrounds = 4\n[axes]\nlr = [0.01, 0.1]\n'
    (tmp_path / "seen.toml").write_text(f'{base}[tune]\nmethod = "simple"\non = "test"\n')
    assert "chosen on the test set" in typed("tune", tmp_path / "seen.toml", "--runs", six, "-q")


Told = dict[float, tuple[float, float]]  # by rate: the accuracy on what is held back, and the loss

TIES: list[tuple[Told, str]] = [
    ({0.01: (97, 0.3), 0.03: (97, 0.2), 0.1: (97, 0.1), 0.3: (90, 0.4)}, "lr = 0.1"),  # the least loss
    ({0.01: (97, 0.3), 0.03: (96, 0.1), 0.1: (90, 0.4)}, "lr = 0.03"),  # one row of 100 is no difference
    ({0.003: (80, 0.4), 0.01: (97, 0.1), 0.03: (97, 0.1), 0.1: (97, 0.1), 0.3: (80, 0.4)}, "lr = 0.03"),  # the middle
]


@pytest.mark.parametrize(("told", "best"), TIES)
def test_rates_that_one_row_cannot_tell_apart_are_a_tie_that_is_named(told: Told, best: str, tmp_path: Path) -> None:
    base = {"dataset": "breast_cancer", "rounds": 4, "eval_every": 1}
    shown = study.parse("ties", {"base": base, "axes": {"lr": list(told), "seed": [1]}, "tune": {"method": "simple"}})
    (cell,) = cells(shown)
    for setting in cell.grid.values():
        put(tmp_path, setting, *told[setting.lr])
    (choice,) = search.choices(shown, Store(tmp_path))
    assert choice.best == best
    assert "tie" in choice.stages[-1].why


def put(store: Path, setting: baton.Setting, accuracy: float, loss: float) -> None:
    """A run by hand, of 100 rows that are held back."""
    own = {
        "validation_accuracy": [50.0, *[accuracy] * 4],
        "validation_loss": [9.0, *[loss] * 4],
        "validation_rows": [100.0] * 5,
        "test_accuracy": [100.0 - accuracy] * 5,
    }
    history = {name: [(r, np.array([x])) for r, x in enumerate(values)] for name, values in own.items()}
    at = Snapshot(4, State({"x": torch.zeros(1, 1)}), {}, torch.tensor([-1]), History(history))
    handmade.finish(Store(store), setting, at)


def test_the_output_and_the_page_name_a_tie(tmp_path: Path) -> None:
    found = baton.compare(seeds=1, runs=tmp_path, quiet=True, dataset="breast_cancer", rounds=40, lrs=[0.1, 0.3])
    assert sum("tie" in note for note in found.notes) == 2
    assert "tie" in table_files(build(found.study, Store(tmp_path)))["compare-search.md"].decode()


def short(lrs: str, **tune: str) -> str:
    """A study of a few rounds, in which larger rates are better."""
    lines = [f'{key} = "{x}"' for key, x in tune.items()]
    base = f'[base]\ndataset = "breast_cancer"\nrounds = 8\neval_every = 1\n[axes]\nlr = [{lrs}]\nseed = [1]\n'
    return "\n".join([base, "[tune]", *lines, ""])


def test_a_best_rate_at_the_edge_of_the_grid_is_said(tmp_path: Path) -> None:
    (tmp_path / "edge.toml").write_text(short("0.0001, 0.001", on="test", by="loss"))
    assert "lr = 0.001 is the largest" in typed("tune", tmp_path / "edge.toml", "--runs", tmp_path / "runs", "-q")
    shown = study.read(tmp_path / "edge.toml")
    assert "lr = 0.001 is the largest" in table_files(build(shown, Store(tmp_path / "runs")))["edge-search.md"].decode()


def test_a_curve_that_still_rises_is_said(tmp_path: Path) -> None:
    (tmp_path / "rises.toml").write_text(short("0.0003, 0.001", on="test", by="loss"))
    said = typed("tune", tmp_path / "rises.toml", "--runs", tmp_path / "runs", "-q")
    assert "still getting better" in said


def test_tune_tries_rates_beyond_a_grid_whose_best_is_its_last(tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text(short("0.001, 0.003", by="loss"))
    shown = study.read(tmp_path / "more.toml")
    (choice,) = baton.tune(shown, tmp_path / "runs", quiet=True)
    assert choice.chosen[0].lr > 0.003
    table = table_files(build(shown, Store(tmp_path / "runs")))["more.md"].decode()
    assert f"(lr {choice.chosen[0].lr:g})" in table  # the report follows the same search
