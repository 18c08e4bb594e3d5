"""What rates are chosen by: rows that clients hold back, never the test set's, and never the untrained model."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import baton
from baton import study
from baton.cli import app
from baton.report.built import build, table_files
from baton.store import Store

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
