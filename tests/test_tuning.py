"""Grid search: the rules by hand-made scores, the search against the store, the command as one types it."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import baton
from baton import paper, search, study
from baton.errors import BadInput
from baton.search.rules import METHODS, MISSING, Choice, Missing, cells
from baton.search.rules import search as follow
from baton.setting import Setting
from baton.store import Store
from baton.study import Study

SEARCHES = sorted(set(METHODS) - {"paper"})
RATES = [0.01, 0.03, 0.1, 0.3]


def make(rounds: int = 1600, **changes: Any) -> Study:
    table: dict[str, Any] = {
        "base": {"rounds": rounds, "eval_every": 4, "clients": 5, "participants": 2},
        "axes": {"lr": RATES, "seed": [1, 2, 3]},
        "tune": {"method": "coarse-fine", "short": 400, "seed": 2, "extend": False},
        "report": {"last": 25},
    }
    for key, value in changes.items():
        table[key] = {**table.get(key, {}), **value}
    return study.parse("made", table)


def told(scores: Mapping[tuple[float, int], float | None]) -> Callable[[Setting, int], float | Missing | None]:
    """Scores by learning rate and rounds."""
    return lambda setting, _: scores.get((setting.lr, setting.rounds), MISSING)


def by(shown: Study, method: str) -> Study:
    return shown._replace(tune=shown.tune.model_copy(update={"method": method})) if method and shown.tune else shown


def decide(shown: Study, scores: Mapping[tuple[float, int], float | None], method: str = "") -> Choice:
    (cell,) = cells(shown)
    return follow(by(shown, method), cell, told(scores))


def test_simple_takes_the_best_of_all() -> None:
    choice = decide(make(), {(0.01, 1600): 50.0, (0.03, 1600): 70.0, (0.1, 1600): 69.9, (0.3, 1600): None}, "simple")
    assert choice.best == "lr = 0.03"
    assert [s.seed for s in choice.chosen] == [2, 1, 3]
    assert {s.lr for s in choice.chosen} == {0.03}
    assert choice.spent == choice.full == 4 * 1600 * 2 * 5


def test_the_paper_s_rule_takes_the_near_ones_into_the_long_run() -> None:
    short = {(0.01, 400): 66.9, (0.03, 400): 67.0, (0.1, 400): 70.0, (0.3, 400): 10.0}
    choice = decide(make(), short)
    assert [s.lr for s in choice.missing] == [0.1, 0.03]
    assert {s.rounds for s in choice.missing} == {1600}
    choice = decide(make(), {**short, (0.03, 1600): 80.0, (0.1, 1600): 78.0})
    assert choice.best == "lr = 0.03"
    assert choice.stages[0].kept == ["lr = 0.1", "lr = 0.03"]
    assert choice.spent == (2 * 400 + 2 * 1600) * 2 * 5
    assert "within 3" in choice.stages[0].why


def test_the_paper_s_search_on_the_paper_s_numbers() -> None:
    """CIFAR-10, VGG-9, C = 2, K = 20, sequential: 0.01 and 10^-1.5 are candidates, 0.01 wins in the long run."""
    shown = make(4000, axes={"lr": [0.003, 0.01, 0.03, 0.1]}, tune={"short": 1000})
    scores = {(0.003, 1000): 60.82, (0.01, 1000): 67.93, (0.03, 1000): 66.50, (0.1, 1000): 10.0}
    assert decide(shown, {**scores, (0.01, 4000): 81.50, (0.03, 4000): 78.35}).best == "lr = 0.01"


def test_halving_drops_the_worse_half_but_keeps_what_is_close() -> None:
    first = {(0.01, 200): 10.0, (0.03, 200): 20.0, (0.1, 200): 40.0, (0.3, 200): 39.5}
    second = {(0.1, 400): 50.0, (0.3, 400): 49.8}
    third = {(0.1, 800): 60.0, (0.3, 800): 55.0}
    choice = decide(make(), {**first, **second, **third, (0.1, 1600): 70.0}, "halving")
    assert choice.best == "lr = 0.1"
    assert decide(make(tune={"within": 6}), {**first, **second, **third}, "halving").best is None  # 0.3 goes on
    assert [stage.kept for stage in choice.stages] == [
        ["lr = 0.1", "lr = 0.3"],
        ["lr = 0.1", "lr = 0.3"],
        ["lr = 0.1"],
        ["lr = 0.1"],
    ]
    assert choice.spent == (2 * 200 + 800 + 1600) * 2 * 5


@given(st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=4, max_size=4), st.sampled_from(SEARCHES))
def test_scores_that_never_change_give_the_best_whatever_the_method(scores: list[float | None], method: str) -> None:
    shown = make()
    (cell,) = cells(shown)
    by_rate = dict(zip(RATES, scores, strict=True))
    choice = follow(by(shown, method), cell, lambda s, _: by_rate[s.lr])
    sound = [x for x in scores if x is not None]
    assert (choice.best is None) == (not sound)
    if choice.best:
        assert by_rate[choice.chosen[0].lr] == max(sound)
    assert 0 < choice.spent <= choice.full


def test_smaller_may_be_better() -> None:
    shown = make(report={"metric": "test_loss", "best": "min"})
    assert decide(shown, {(r, 1600): r for r in RATES}, "simple").best == "lr = 0.01"


def test_an_option_is_searched_like_a_field() -> None:
    cases = [
        {"algorithm": "parallel:weighting=size", "axes": {"algorithm.server_lr": [0.5, 1.0]}},
        {"algorithm": "sequential"},
    ]
    table = {"base": {"rounds": 8}, "axes": {"lr": [0.1, 0.3], "seed": [1, 2]}, "cases": cases}
    shown = study.parse("own", {**table, "tune": {"over": ["lr", "algorithm.server_lr"], "extend": False}})
    one, other = cells(shown)
    assert list(one.grid) == [f"lr = {lr}, algorithm.server_lr = {x}" for lr in (0.1, 0.3) for x in (0.5, 1)]
    assert (one.fields["algorithm"], other.fields["algorithm"]) == ("parallel:weighting=size", "sequential")
    assert list(other.grid) == ["lr = 0.1", "lr = 0.3"]
    assert all(len(own) == 1 for cell in (one, other) for own in cell.seeds.values())
    choice = follow(shown, one, lambda s, _: s.lr + ("server_lr" in s.algorithm))
    assert choice.best == "lr = 0.3, algorithm.server_lr = 0.5"
    assert [s.algorithm for s in choice.chosen] == ["parallel:weighting=size,server_lr=0.5"] * 2


def test_two_fields_are_searched_together() -> None:
    shown = make(axes={"clip": [5.0, 10.0]}, tune={"over": ["lr", "clip"]})
    (cell,) = cells(shown)
    assert len(cell.grid) == 8
    choice = follow(by(shown, "simple"), cell, lambda s, _: s.lr + s.clip)
    assert choice.best == "lr = 0.3, clip = 10"


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ({"seed": 7}, "seed: 7 is not among the study's seeds; one of [1, 2, 3] is right"),
        ({"over": ["seed"]}, "over: 'seed' cannot be searched"),
        ({"over": ["lrr"]}, "over: no such setting 'lrr'; did you mean 'lr'?"),
        ({"over": []}, "over: [] searches nothing"),
        ({"method": "halvin"}, "no method 'halvin'; did you mean 'halving'?"),
        ({"short": 0}, "short: 0; at least 1"),
        ({"within": -1.0}, "within: -1.0; 0 or more"),
        ({"within": "x"}, "within: 'x' is not a float"),
        ({"width": 1}, "[tune]: no key 'width'"),
    ],
)
def test_mistakes_are_one_line(tune: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as error:
        decide(make(tune=tune), {})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_study_without_a_search_says_so() -> None:
    with pytest.raises(BadInput, match=r"has no table \[tune\]"):
        cells(study.read("digits"))


def small(method: str) -> Study:
    return make(
        48,
        base={"participants": 2, "local_steps": 2},
        axes={"lr": [0.01, 0.1, 1.0], "algorithm": ["sequential", "parallel"], "seed": [1, 2]},
        tune={"method": method, "short": 16, "within": 20.0, "last": 2, "seed": 2},
        report={"last": 3},
    )


@pytest.mark.parametrize("method", SEARCHES)
def test_a_search_trains_what_it_asks_for_and_no_more(method: str, tmp_path: Path) -> None:
    shown, store = small(method), Store(tmp_path)
    found = baton.tune(shown, tmp_path, "cpu", quiet=True)
    assert len(found) == 2
    for choice in found:
        assert choice.best
        assert not choice.missing
        assert all(store.complete(s.run_id) for s in choice.chosen)
        whole = [s for s in choice.cell.grid.values() if store.complete(s.run_id)]
        assert len(whole) == (3 if method == "simple" else len(choice.stages[-1].scores))
    trained = len(store.ids())
    assert baton.tune(shown, tmp_path, "cpu", quiet=True) == found
    assert len(store.ids()) == trained
    stored = json.loads((tmp_path / "tuned" / f"made-{method}.json").read_text())
    assert [cell["chosen"] for cell in stored["cells"]] == [choice.best for choice in found]
    assert stored["steps"] == sum(choice.spent for choice in found)


def test_scores_come_from_longer_runs_too(tmp_path: Path) -> None:
    shown = small("simple")
    baton.tune(shown, tmp_path, "cpu", quiet=True)
    before = Store(tmp_path).ids()
    for method in SEARCHES:
        assert all(choice.best for choice in search.choices(by(shown, method), Store(tmp_path)))
    assert Store(tmp_path).ids() == before


def test_a_score_is_the_mean_of_the_last_evaluations(tmp_path: Path) -> None:
    shown, store = small("simple"), Store(tmp_path)
    found = baton.tune(shown, tmp_path, "cpu", quiet=True)[0]
    assert found.best
    run = store.read(found.cell.grid[found.best].run_id)
    assert found.stages[-1].scores[found.best] == pytest.approx(run.metrics["validation_accuracy"][-3:].mean())
    read = search.reader(store, "test_accuracy")
    beginning = Setting(**{**run.setting.model_dump(), "rounds": 16})
    values = run.metrics["test_accuracy"][run.metrics["round"] <= 16]
    assert read(beginning, 2) == pytest.approx(values[-2:].mean())


STUDY = """
[base]
rounds = 8
clients = 5
participants = 2
[axes]
lr = [0.1, 1.0]
seed = [1, 2]
[tune]
method = "coarse-fine"
short = 4
last = 1
[report]
last = 1
"""


def typed(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "baton", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(STUDY)
    assert "next: 2 runs of 4 rounds" in typed(tmp_path, "tune", "own.toml", "--dry-run").stdout
    done = typed(tmp_path, "tune", "own.toml").stdout
    assert "nothing is left to train" in done
    assert "kept: lr = " in done
    assert "% of the whole grid's" in done
    again = typed(tmp_path, "tune", "own.toml", "--json")
    assert json.loads(again.stdout)["cells"][0]["chosen"].startswith("lr = ")
    wrong = typed(tmp_path, "tune", "own.toml", "--method", "grid", code=2)
    assert wrong.stderr == "baton: tune: no method 'grid'; known: coarse-fine, halving, paper, simple\n"
    large = typed(tmp_path, "tune", "own.toml", "--scale", "2", code=2)
    assert large.stderr == "baton: own.toml: scale: 2; a number above 0, up to 1, is right\n"


def test_the_paper_s_own_choice_needs_no_search() -> None:
    shown = study.read("mnist", method="paper")
    found = [follow(shown, cell, lambda *_: MISSING) for cell in cells(shown)]
    assert not any(choice.missing for choice in found)
    assert sum(choice.spent for choice in found) == 0
    for choice in found:
        first = choice.chosen[0]
        rows = paper.lookup(
            "grid",
            dataset="mnist",
            model=first.model.split(":")[0],
            partition=shown.labels["partition", first.partition],
            local_steps=first.local_steps,
            algorithm=first.algorithm.split(":")[0],
            lr=first.lr,
        )
        assert [row["marked"] for row in rows] == [1]
        assert sorted(s.seed for s in choice.chosen) == [123, 1234, 12345]


def test_the_paper_s_fine_search_comes_before_its_grid() -> None:
    shown = study.read("cifar10", method="paper")
    found = [follow(shown, cell, lambda *_: MISSING) for cell in cells(shown)]
    (one,) = [
        choice.chosen[0]
        for choice in found
        if choice.cell.fields["model"].startswith("vgg9")
        and choice.cell.fields["algorithm"] == "sequential"
        and shown.labels["partition", choice.cell.fields["partition"]] == "C = 2"
        and choice.cell.fields["local_steps"] == 50
    ]
    assert one.lr == 0.01


def test_what_the_paper_did_not_run_has_no_choice_of_its_own() -> None:
    with pytest.raises(BadInput, match=r"the paper has no value of lr for digits, .*another --method is right"):
        decide(make(), {}, "paper")
