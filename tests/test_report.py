"""The report: what is chosen, what is said about it, and that the page stands on its own."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handmade
from baton import run, study
from baton.errors import BadInput
from baton.report import curves, figures, grid, report, tables, words
from baton.seam import State
from baton.setting import Setting
from baton.store import History, Snapshot, Store
from baton.study import Report, Study

ROUNDS = [0, 2, 4, 6, 8]
METRIC = "test_accuracy"


def make(name: str = "small", **changes: Any) -> Study:
    table: dict[str, Any] = {
        "title": f"Title of {name}",
        "base": {"rounds": 8, "eval_every": 2},
        "axes": {"algorithm": ["sequential", "parallel"], "lr": [0.1, 0.5], "seed": [1, 2]},
        "groups": {"one": {"partition": "iid"}, "two": {"partition": "exdir:C=2,alpha=10"}},
        "report": {"last": 2, "spread": "paper"},
    }
    for key, value in changes.items():
        table[key] = {**table[key], **value} if key in ("base", "axes", "report") else value
    return study.parse(name, table)


def put(store: Store, setting: Setting, series: list[float], diverged: int = -1, metric: str = METRIC) -> None:
    """A run by hand: one value an evaluation, and a metric of other rounds, which leaves cells empty."""
    history = {
        metric: [(r, np.array([x])) for r, x in zip(ROUNDS, series, strict=True)],
        "train_loss": [(r, np.array([1.0])) for r in range(9)],
    }
    handmade.finish(
        store, setting, Snapshot(8, State({"x": torch.zeros(1, 1)}), {}, torch.tensor([diverged]), History(history))
    )


def series(setting: Setting) -> list[float]:
    """Accuracies that grow, differ by seed, and end highest for sequential 0.1 and parallel 0.5."""
    good = (setting.algorithm, setting.lr) in (("sequential", 0.1), ("parallel", 0.5))
    top = (80.0 if setting.algorithm == "sequential" else 70.0) - (0.0 if good else 10.0) + setting.seed
    return [10.0, 40.0, top, top + 1.5, top + 3.0]


def fill(store: Store, *studies: Study) -> Store:
    for each in studies:
        for setting in each.settings:
            put(store, setting, series(setting), metric=each.report.metric)
    return store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def first(shown: Study, store: Store) -> grid.Panel:
    return grid.panels(shown, grid.load(shown, store))[0]


def test_best_value_and_summary_are_those_computed_by_hand(store: Store) -> None:
    shown = make()
    panel = first(shown, fill(store, shown))
    for line, best in (("sequential", 0.1), ("parallel", 0.5)):
        runs = [s for s in shown.groups["one"] if (s.algorithm, s.lr) == (line, best)]
        last = np.array([series(s)[-2:] for s in runs])
        found = panel.curves[line]
        assert found.best is not None
        assert (found.best.value, found.best.seeds, found.complete, found.wanted) == (best, 2, 4, 4)
        assert found.best.mean == pytest.approx(last.mean(1).mean())
        assert found.best.std == pytest.approx(last.std())
        whole = np.array([series(s) for s in runs])
        np.testing.assert_array_equal(found.rounds, ROUNDS)  # rounds without this metric are dropped
        np.testing.assert_allclose(found.mean, whole.mean(0))
        np.testing.assert_allclose(found.high, whole.mean(0) + whole.std(0))
        np.testing.assert_allclose(found.low, whole.mean(0) - whole.std(0))


def test_shading_from_smallest_to_largest(store: Store) -> None:
    shown = make(report={"shade": "minmax"})
    found = first(shown, fill(store, shown)).curves["sequential"]
    np.testing.assert_allclose(found.low, [10, 40, 81, 82.5, 84])
    np.testing.assert_allclose(found.high, [10, 40, 82, 83.5, 85])


def test_smallest_wins_where_smaller_is_better(store: Store) -> None:
    shown = make(report={"metric": "test_loss"})
    found = first(shown, fill(store, shown))
    assert [c.best.value for c in found.curves.values() if c.best] == [0.5, 0.1]
    assert grid.ahead(found, shown.report) == "parallel"


@pytest.mark.parametrize(("metric", "winner", "other"), [("test_accuracy", 0.1, 0.5), ("test_loss", 0.5, 0.1)])
@pytest.mark.parametrize(("end", "diverged"), [(50.0, 7), (np.inf, -1), (np.nan, -1)])
def test_a_value_that_lost_a_run_never_wins(
    store: Store, metric: str, winner: float, other: float, end: float, diverged: int
) -> None:
    shown = make(report={"metric": metric})
    fill(store, shown)
    lost = next(s for s in shown.groups["one"] if (s.algorithm, s.lr, s.seed) == ("sequential", winner, 2))
    put(store, lost, [50.0, 50, 50, 50, end], diverged, metric)
    found = first(shown, store).curves["sequential"]
    assert found.best is not None
    assert found.best.value == other
    assert found.lost == 1


def test_all_diverged_is_said_and_the_other_line_is_ahead(store: Store) -> None:
    shown = make()
    fill(store, shown)
    for s in shown.settings:
        if s.algorithm == "sequential":
            put(store, s, [10.0, 20, 30, 40, 50], diverged=5 if s.lr == 0.1 else 3)
    panel = first(shown, store)
    assert grid.ahead(panel, shown.report) == "parallel"
    np.testing.assert_array_equal(panel.curves["sequential"].rounds, [0, 2, 4])
    cell = tables.rows(shown, [panel])[0]["cells"][0]
    assert (cell["text"], cell["note"], cell["ahead"]) == ("diverged", "4 of 4 runs diverged", False)


def test_of_values_that_end_equal_the_sooner_is_best() -> None:
    slow, fast = (curves.Point(v, 0.0, 0.0, 0.0, 0.0, pace, 1, 0) for v, pace in ((0.1, 2.0), (0.2, 1.0)))
    for points in ([slow, fast], [fast, slow]):
        assert curves.choose(points, Report(best="min")) == fast
    assert curves.choose([], Report()) is None


def test_a_margin_keeps_small_leads_from_bold(store: Store) -> None:
    shown = fill(store, make()) and make()
    assert grid.ahead(first(shown, store), shown.report.model_copy(update={"margin": 9.9})) == "sequential"
    assert grid.ahead(first(shown, store), shown.report.model_copy(update={"margin": 10.1})) is None
    assert (
        grid.ahead(first(shown, store), shown.report.model_copy(update={"margin": 10.1, "log": True})) == "sequential"
    )


def test_fields_that_vary_besides_get_panels_of_their_own(store: Store) -> None:
    shown = make(axes={"local_steps": [1, 5]}, groups={})
    panels = grid.panels(shown, grid.load(shown, fill(store, shown)))
    assert [p.group for p in panels] == ["K = 1", "K = 5"]
    assert all(c.best and c.best.seeds == 2 for p in panels for c in p.curves.values())
    by_figure = make(axes={"local_steps": [1, 5]}, groups={}, report={"figures": "local_steps"})
    assert [(p.figure, p.group) for p in grid.panels(by_figure, grid.load(by_figure, store))] == [
        (1, "all"),
        (5, "all"),
    ]


def test_names_and_colours_of_lines() -> None:
    plain, sized = "parallel", "parallel:weighting=size"
    assert words.labels("algorithm", ["sequential", sized]) == {"sequential": "sequential", sized: "parallel"}
    assert words.labels("algorithm", [plain, sized]) == {plain: plain, sized: sized}
    assert words.labels("local_steps", [1, 5]) == {1: "local_steps = 1", 5: "local_steps = 5"}
    two = words.colours("algorithm", ["sequential", sized])
    three = words.colours("algorithm", [sized, plain, "sequential"])
    assert two["sequential"] == three["sequential"] == "#D55E00"
    assert two[sized] == three[plain] == "#0072B2"
    assert len(set(three.values())) == 3
    assert not set(words.colours("lr", [0.1, 0.2]).values()) & {"#D55E00", "#0072B2"}


def test_numbers_as_they_are_written() -> None:
    assert words.number(98.456, "test_accuracy") == "98.46"
    assert words.number(3.14e-5, "distance") == "3.1e-05"
    assert words.number(0.0, "distance") == "0"
    assert words.number(0.12345, "test_loss") == "0.1235"
    assert [words.seconds(x) for x in (1.234, 125, 7300)] == ["1.2 s", "2 min 5 s", "2 h 01 min"]


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_the_page_stands_on_its_own(store: Store, tmp_path: Path) -> None:
    small, other = make(), make("other", base={"local_steps": 2}, report={"figures": "batch_size"})
    page = report([small, other], fill(store, small, other), tmp_path / "out")
    html = page.read_text()
    assert page == tmp_path / "out" / "index.html"
    assert "Title of small" in html
    assert "Title of other" in html
    assert "Sequential is ahead in 2 of 2 groups." in html
    targets = re.findall(r'(?:src|href)="([^"]*)"', re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL))
    assert not [t for t in targets if t.startswith(("http:", "https:", "//"))]
    files = {t for t in targets if not t.startswith(("data:", "#"))}
    assert files == {path.name for path in page.parent.iterdir()} - {"index.html"}
    assert {Path(f).suffix for f in files} == {".svg", ".pdf", ".png", ".csv", ".md", ".tex"}
    assert "are missing" not in html
    rows = read_csv(page.parent / "small.csv")
    assert len(rows) == 4
    last = np.array([series(s)[-2:] for s in small.groups["two"] if (s.algorithm, s.lr) == ("parallel", 0.5)])
    row = next(r for r in rows if (r["group"], r["algorithm"]) == ("two", "parallel"))
    assert float(row["mean"]) == pytest.approx(last.mean(), rel=1e-15)
    assert float(row["std"]) == pytest.approx(last.std(), rel=1e-15)
    assert (row["lr"], row["seeds"], row["diverged"], row["missing"], row["ahead"]) == ("0.5", "2", "0", "0", "0")
    assert "| one | **83.75 ± 0.90** (lr 0.1) | 73.75 ± 0.90 (lr 0.5) |" in (page.parent / "small.md").read_text()


def test_the_same_store_gives_the_same_bytes(store: Store, tmp_path: Path) -> None:
    shown = make(groups={"one": {"partition": "iid"}})
    fill(store, shown)
    one, two = (report([shown], store, tmp_path / name).parent for name in ("one", "two"))
    assert sorted(p.name for p in one.iterdir()) == sorted(p.name for p in two.iterdir())
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes(), path.name


def test_a_partial_store_says_what_is_missing(store: Store, tmp_path: Path) -> None:
    shown = make()
    for setting in shown.settings:
        if setting.partition == "iid" and (setting.algorithm, setting.seed) != ("parallel", 2):
            put(store, setting, series(setting))
    page = report([shown], store, tmp_path / "out")
    html = page.read_text()
    assert "10 of 16 runs are missing" in html
    assert "1 cannot be compared yet" in html
    assert "6 of 16 complete" in html
    table = (page.parent / "small.md").read_text()
    assert "| missing |" in table
    assert "(lr 0.5, 1 of 2 seeds) | 2 |" in table
    assert "| two | not run | not run | 8 |" in table


def test_nothing_run_is_one_line(store: Store, tmp_path: Path) -> None:
    wanted = f"report: no complete run of study 'small' in {store.root}; 'baton sweep' trains them"
    with pytest.raises(BadInput, match=f"^{re.escape(wanted)}$"):
        report([make()], store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bad_input_is_one_line_and_writes_nothing(store: Store, tmp_path: Path) -> None:
    shown = make(groups={})
    fill(store, shown)
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"is a file; a folder is right$"):
        report([shown], store, tmp_path / "file")
    with pytest.raises(BadInput, match=r"measured 'distance'; known: test_accuracy, train_loss$"):
        report([make(groups={}, report={"metric": "distance"})], store, tmp_path / "out")
    with pytest.raises(BadInput, match="'small' is given twice"):
        report([shown, shown], store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_text_from_a_study_cannot_become_markup(store: Store, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    groups = {'<img src="x" onerror="alert(2)"> $x^{$ | 字 y': {"partition": "iid"}}
    shown = make("../evil <b>", title=evil, about=evil, groups=groups, axes={"lr": [0.1]})
    page = report([shown], fill(store, shown), tmp_path / "out")
    html = page.read_text()
    assert evil not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<img src=&#34;x" not in html
    assert '<img src="x"' not in html
    assert {path.parent for path in tmp_path.rglob("*.svg")} == {page.parent}
    assert r"$x^{$ \| 字 y | **" in next(page.parent.glob("*.md")).read_text()


def test_trained_quadratics_on_a_log_axis(tmp_path: Path) -> None:
    shown = study.parse(
        "quadratics",
        {
            "base": {"dataset": "quadratic:zeta=1,delta=0", "rounds": 12, "eval_every": 12, "local_steps": 2},
            "axes": {"algorithm": ["sequential", "parallel"], "lr": [0.5, 1.0, 1e200], "seed": [1, 2]},
            "report": {"metric": "distance", "best": "min", "log": True, "last": 4, "spread": "paper"},
        },
    )
    runs = tmp_path / "runs"
    run(shown.settings, runs, device="cpu")
    with open(runs / "journal.jsonl", "a") as file:
        file.write('{"runs": ["')  # a line cut short
    page = report([shown], Store(runs), tmp_path / "out")
    html = page.read_text()
    assert "parallel is ahead in 1 of 1 group." in html.lower()
    assert "4 diverged" in html
    entry = json.loads((runs / "journal.jsonl").read_text().splitlines()[0])
    assert entry["device"] in html
    assert entry["versions"]["torch"] in html
    row = read_csv(page.parent / "quadratics.csv")[1]
    assert (row["algorithm"], row["mean"], row["lr"], row["diverged"]) == ("parallel", "0.0", "1.0", "2")


def test_figures_leave_matplotlib_as_it_was(store: Store) -> None:
    import matplotlib

    shown = make(groups={}, axes={"lr": [0.1]})
    panels = grid.panels(shown, grid.load(shown, fill(store, shown)))
    before = dict(matplotlib.rcParams)
    drawn = figures.draw(shown, panels)
    assert dict(matplotlib.rcParams) == before
    assert [d.kind for d in drawn] == ["curves"]  # one learning rate: nothing to draw it against
    for source in Path(figures.__file__).parent.glob("*.py"):
        assert not re.search(r"import.*pyplot", source.read_text()), source
