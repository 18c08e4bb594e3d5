"""The shipped studies: each is the table or figure it says it is, by the paper's description and by its numbers."""

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import handmade
from baton import clients, datasets, paper, report, study
from baton.api import run, tune
from baton.errors import BadInput
from baton.seam import State
from baton.search import choices, match, wanted
from baton.search.rules import METHODS, Choice, cells, search, shorter
from baton.setting import Setting
from baton.store import History, Snapshot, Store
from baton.store.columns import EXACT, MEASURED
from baton.study import Report, Study, Tune
from made_data import write_idx

pytest_plugins = ["fixtures_data"]

ROOT = Path(__file__).parents[1]
SOURCE = ROOT.parent / "shared" / "paper"
EVERY = pytest.mark.parametrize("name", study.shipped())
PAIRS = {
    "mnist": ("logistic", "mlp", "lenet5"),
    "fashion_mnist": ("lenet5", "cnn"),
    "cifar10": ("vgg9", "resnet18"),
    "cinic10": ("vgg9", "resnet18"),
}
ALL = [(dataset, model) for dataset, models in PAIRS.items() for model in models]
RATES = {"parallel": (0.01, 0.03, 0.1, 0.3), "sequential": (0.003, 0.01, 0.03, 0.1)}  # appendix E.3
CLIPS = {"parallel": (10.0,), "sequential": (50.0,)}
TRIED = {"parallel": (0.0, 20.0, 10.0, 5.0), "sequential": (0.0, 100.0, 50.0, 20.0)}
SEEDS = (123, 1234, 12345)
RESULTS = pytest.mark.parametrize("name", PAIRS)
# What the experiments of the paper show, by its labels.
SHOWN = {
    "fig:simulation": "quadratics_three",
    "tab:simulation settings": "quadratics_three",
    "fig:app:simulation": "quadratics",
    "tab:app:simulation settings": "quadratics",
    "fig:extended dirichlet strategy": "partitions",
    "fig:best learning rate": "best_lr",
    "fig:local steps": "local_steps",
    "tab:cross-device settings": "cifar10 cinic10",
    "tab:app:cross-device settings": "mnist fashion_mnist cifar10 cinic10",
    "tab:app:gradient clipping": "clipping",
    "tab2:app:gradient clipping": "clipping_long",
    "fig:app:gradient clipping": "clipping_long",
    "tab:app:coarse-grained search": "grid",
    "fig:app:best learning rate": "grid",
    "tab:app:fine-grained search": "fine",
    "fig:app:fine-grained search": "fine",
    "fig:app:mnist exp": "curves_mnist",
    "fig:app:fashionmnist exp": "curves_fashion_mnist",
    "fig:app:cifar10 exp": "curves_cifar10",
    "fig:app:cinic10 exp": "curves_cinic10",
}


@cache
def read(name: str) -> Study:
    return study.read(ROOT / "studies" / f"{name}.toml")


@cache
def comment(name: str) -> str:
    """The comment at the top of a study, as one line."""
    text = (ROOT / "studies" / f"{name}.toml").read_text()
    return " ".join(re.match(r"(#.*\n)+", text)[0].replace("#", "").split())  # type: ignore[index]


@cache
def counted(name: str) -> int:
    """SGD steps of a study; where legs are passes, that takes the data."""
    try:
        return sum(clients.steps(s) for s in read(name).settings)
    except BadInput:
        return (
            pytest.skip("steps of passes are counted from the samples, and this data set is not on this machine")
            if any(s.epochs for s in read(name).settings)
            else pytest.fail(name)
        )


def ids(settings: Sequence[Setting]) -> set[str]:
    return {s.key for s in settings}


def described(
    pairs: Sequence[tuple[str, str]],
    rounds: int,
    seeds: Sequence[int],
    clips: dict[str, tuple[float, ...]] = CLIPS,
    steps: Sequence[int] = (5, 20, 50),
) -> list[Setting]:
    """The runs of the paper's cross-device experiments."""
    return [
        Setting(
            dataset=dataset,
            model=model,
            partition=f"exdir:C={C},alpha=10,form=balanced",
            algorithm="parallel:weighting=size" if algorithm == "parallel" else algorithm,
            clients=1000 if dataset == "cinic10" else 500,
            participants=10,
            local_steps=K,
            rounds=rounds,
            batch_size=20,
            lr=lr,
            clip=clip,
            weight_decay=1e-4,
            seed=seed,
            eval_every=4,
        )
        for (dataset, model), C, K, seed, algorithm in product(pairs, (1, 2), steps, seeds, clips)
        for lr, clip in product(RATES[algorithm], clips[algorithm])
    ]


# What a study's comment says.


@EVERY
def test_the_comment_names_a_table_or_figure_and_the_command(name: str) -> None:
    assert re.search(r"\b(table|figure)\b", comment(name), re.IGNORECASE)
    verb = "tune" if read(name).tune else "partition --study" if name == "partitions" else "sweep"
    assert f"baton {verb} {name}" in comment(name)


@EVERY
def test_the_comment_says_what_it_costs(name: str) -> None:
    (runs, steps), *more = re.findall(r"([\d,]+) runs, ([\d,]+) SGD steps", comment(name))
    assert not more
    assert int(runs.replace(",", "")) == len(read(name).settings)
    assert int(steps.replace(",", "")) == counted(name)


@pytest.mark.parametrize("label", SHOWN)
def test_every_table_and_figure_has_its_study(label: str) -> None:
    for name in SHOWN[label].split():
        assert label in comment(name)


def test_labels_are_the_papers() -> None:
    found = sorted(SOURCE.glob("*.txt"))
    if not found:
        pytest.skip("the paper's source, which the labels are held against, is not on this machine")
    text = found[0].read_text("utf-8")
    said = {label for name in study.shipped() for label in re.findall(r"\b(?:fig|tab2?):[^,;)]+", comment(name))}
    assert said == set(SHOWN)
    assert [label for label in said if f"\\label{{{label}}}" not in text] == []


def test_of_the_papers_tables_only_those_without_training_have_no_study() -> None:
    used = {read(name).report.paper for name in study.shipped()} - {""}
    assert set(paper.TABLES) - used == {
        "bounds",
        "notation",
        "quadratics",
        "cross_device",
        "choices",
    }  # results holds the last
    rows = [{**row, "marked": 0} for row in paper.table("results")]
    assert all({**row, "marked": 0} in rows for row in paper.table("cross_device"))


# The runs, by the paper's description.


def test_quadratics() -> None:
    rates = {0.001, 0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 0.6, 1.0}
    three, nine = read("quadratics_three"), read("quadratics")
    assert (len(three.settings), len(nine.settings)) == (3 * 2 * 2 * 10 * 5, 9 * 2 * 2 * 10 * 5)
    specs = [f"quadratic:zeta={zeta},delta={delta}" for delta, zeta in product(("0", "1/3", "1"), (1, 10, 100))]
    one = [Setting(dataset=spec).dataset for spec in specs]
    assert [settings[0].dataset for settings in nine.groups.values()] == one  # rows: delta, columns: zeta
    assert [settings[0].dataset for settings in three.groups.values()] == one[::3]
    assert ids(three.settings) == ids([s for s in nine.settings if s.dataset in one[::3]])
    for each in (three, nine):
        assert {s.lr for s in each.settings} == rates
        assert set(each.report.among) == rates - {0.001, 1.0}
        assert {s.seed for s in each.settings} == {1, 12, 123, 1234, 12345}
        assert {(s.clients, s.participants, s.rounds) for s in each.settings} == {(2, 2, 500)}
        assert (each.report.metric, each.report.best, each.report.shade) == ("distance", "min", "minmax")


def test_partitions_are_twelve() -> None:
    specs = list(dict.fromkeys(s.partition for s in read("partitions").settings))
    assert specs == [f"exdir:C={C},alpha={alpha}" for C, alpha in product((1, 2, 5, 10), (100, 10, 1))]


def test_the_grid_is_54_settings_of_two_algorithms_and_four_rates() -> None:
    found = read("grid").settings
    assert len(found) == 54 * 2 * 4 == 432
    assert ids(found) == ids(described(ALL, 1000, [1234]))


@RESULTS
def test_results(name: str) -> None:
    small = "mnist" in name
    found, pairs = read(name), [(name, model) for model in PAIRS[name]]
    assert ids(found.settings) == ids(described(pairs, 1000 if small else 4000, SEEDS))
    assert len(found.groups) == len(pairs)
    assert found.tune is not None
    assert found.tune.method == ("simple" if small else "coarse-fine")
    assert (found.tune.seed, found.tune.short, found.tune.within, found.tune.last) == (1234, 1000, 3, 10)
    assert 4 * found.report.last == (40 if small else 100)  # rounds
    assert found.report.margin == (1 if small else 2)
    assert found.report.down == ["dataset", "model", "algorithm"]
    assert found.report.across == ["partition", "local_steps"]


@RESULTS
def test_training_curves_are_those_of_the_results(name: str) -> None:
    curves, results = read(f"curves_{name}"), read(name)
    assert (curves.groups, curves.tune) == (results.groups, results.tune)
    assert {curves.report.metric, *curves.report.also} == set(MEASURED) - {"test_loss"}
    assert curves.report.smooth == (0.08 if "mnist" in name else 0.04)
    assert curves.report.shade == "std"


def test_vgg9_on_cifar10() -> None:
    vgg9 = [("cifar10", "vgg9")]
    assert ids(read("best_lr").settings) == ids(described(vgg9, 1000, [1234]))
    assert ids(read("fine").settings) == ids(described(vgg9, 4000, [1234]))
    assert ids(read("clipping").settings) == ids(described(vgg9, 1000, [1234], TRIED))
    assert ids(read("clipping_long").settings) == ids(described(vgg9, 4000, [1234], TRIED))
    steps = described(vgg9, 1000, SEEDS, {"sequential": (50.0,)}, (1, 5, 10, 20, 50))
    assert ids(read("local_steps").settings) == ids(steps)
    assert read("local_steps").report.lines == "local_steps"


def test_searches_share_their_runs() -> None:
    """So that a store that holds the grid holds the first stage of every other search."""
    grid = ids(read("grid").settings)
    for name in (*PAIRS, "fine", "best_lr"):
        assert ids([shorter(s, 1000) for s in read(name).settings if s.seed == 1234]) <= grid
    assert ids([shorter(s, 1000) for s in read("clipping_long").settings]) == ids(read("clipping").settings)
    assert len(ids(read("clipping").settings) & grid) == 48
    kept = [s for s in read("local_steps").settings if s.seed == 1234 and s.local_steps not in (1, 10)]
    assert ids(kept) <= grid


# The runs, by the paper's tables.


def row(found: Study, setting: Setting) -> dict[str, Any]:
    """A run in the words of the paper's tables."""
    fields = ("dataset", "model", "local_steps", "lr")
    name = {"partition": found.labels["partition", setting.partition], "algorithm": setting.algorithm.split(":")[0]}
    return {field: getattr(setting, field) for field in fields} | name


@pytest.mark.parametrize("name", ["grid", "clipping"])
def test_every_number_of_a_search_has_its_run(name: str) -> None:
    keys = ("dataset", "model", "local_steps", "lr", "partition", "algorithm", *(["clip"] * (name == "clipping")))
    found = read(name)
    runs = [tuple({**row(found, s), "clip": s.clip}[key] for key in keys) for s in found.settings]
    assert sorted(runs) == sorted(tuple(each[key] for key in keys) for each in paper.table(name))


@RESULTS
def test_every_number_of_the_results_has_its_search(name: str) -> None:
    found = read(name)
    keys = ("dataset", "model", "local_steps", "partition", "algorithm", "rounds")
    searched = [row(found, s) | {"rounds": s.rounds} for cell in cells(found) for s in list(cell.grid.values())[:1]]
    there = [tuple(each[key] for key in keys) for each in paper.lookup("results", dataset=name)]
    assert sorted(tuple(each[key] for key in keys) for each in searched) == sorted(there)


def decided(name: str, table: str, long: Callable[[Setting], float]) -> list[Choice]:
    """A study's own search, fed with the paper's numbers after 1000 rounds and with others after 4000."""
    found = read(name)

    def score(setting: Setting, last: int) -> float:
        assert last == (10 if setting.rounds == 1000 else 25)
        if setting.rounds != 1000:
            return long(setting)
        fields = row(found, setting) | ({"clip": setting.clip} if table == "clipping" else {})
        (number,) = paper.lookup(table, **fields)
        return float(number["mean"])

    return [search(found, cell, score) for cell in cells(found)]


def test_from_the_papers_short_runs_the_fine_search_finds_its_candidates_and_rates() -> None:
    found = read("fine")

    def long(setting: Setting) -> float:
        (number,) = paper.lookup("fine", **row(found, setting))  # none: not a candidate of the paper's
        return float(number["mean"] or 50)

    for choice in decided("fine", "grid", long):
        (one,) = choice.chosen
        fields = row(found, one)
        assert paper.lookup("fine", **fields)[0]["chosen"] == 1
        del fields["lr"]
        there = sorted(each["lr"] for each in paper.lookup("fine", **fields))
        assert sorted(s.lr for s in choice.trained) == pytest.approx(there)


def test_from_the_papers_short_runs_long_clipping_takes_its_rates() -> None:
    found = read("clipping_long")
    for choice in decided("clipping_long", "clipping", lambda _: 50.0):
        (one,) = choice.chosen
        assert paper.lookup("clipping_long", **row(found, one), clip=one.clip, rounds=4000)
        assert choice.trained == [one]


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_from_the_papers_grid_the_simple_search_takes_what_it_marks(name: str) -> None:
    found = read(name)
    for choice in decided(name, "grid", lambda _: 0.0):
        assert [s.seed for s in choice.chosen] == [1234, 123, 12345]
        assert paper.lookup("grid", **row(found, choice.chosen[0]))[0]["marked"] == 1


# Reading.


@EVERY
def test_reading_needs_no_data(name: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise AssertionError("a data set was loaded")

    with monkeypatch.context() as context:
        context.setattr(datasets, "load", load)
        found = study.read(name)
    assert found.settings
    assert list(data.iterdir()) == []
    if found.tune:
        assert found.tune.method in METHODS
        searched = [s for cell in cells(found) for own in (cell.grid.values(), *cell.seeds.values()) for s in own]
        assert ids([s.replace(validation=0.0) for s in searched]) == ids(found.settings)


@EVERY
def test_scale_changes_rounds_seeds_and_what_is_averaged_only(name: str) -> None:
    whole, small = read(name), study.read(name, 0.01)
    assert small.report.model_copy(update={"last": whole.report.last}) == whole.report
    assert small.report.last == 1
    assert list(small.groups) == list(whole.groups)
    seed = whole.search_seed
    for group, settings in whole.groups.items():
        loose = {"rounds", "eval_every"} | ({"algorithm"} if name.startswith("methods") else set())  # a switch: sooner
        first = [s for s in settings if s.seed == seed]
        assert [s.model_dump(exclude=loose) for s in small.groups[group]] == [
            s.model_dump(exclude=loose) for s in first
        ]
        for before, now in zip(first, small.groups[group], strict=True):
            assert now.rounds == pytest.approx(before.rounds / 100, abs=before.eval_every / 2)
            assert now.eval_every == min(before.eval_every, now.rounds)
    if whole.tune and small.tune:
        assert small.tune.model_copy(update={"short": whole.tune.short, "last": whole.tune.last}) == whole.tune
        assert small.tune.last == 1


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_on_the_published_partitions_only_these_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / "docs" / "results"
    found, shipped = study.read(folder / f"{name}.toml"), read(name)
    for group, settings in shipped.groups.items():
        for s, own in zip(settings, found.groups[group], strict=True):
            label = shipped.labels["partition", s.partition]
            assert found.labels["partition", own.partition] == label
            source = f"{name.replace('_', '')}_M500_exdir_{label.replace(' = ', '')}_a10.json"
            assert own.partition.split("#")[0] == f"file:partitions/{source}"
            assert own.model_dump(exclude={"partition"}) == s.model_dump(exclude={"partition"})
            map_ = ROOT.parent / "shared" / "data" / "partitions" / source
            if map_.is_file():
                pinned = Setting(**{**s.model_dump(), "partition": f"file:{map_}"}).partition
                assert pinned.split("#")[1] == own.partition.split("#")[1]
    assert (found.report, found.tune) == (shipped.report, shipped.tune)
    monkeypatch.chdir(folder)  # where a file of the shipped study's name lies: itself
    assert study.read(name).groups == found.groups
    assert study.read(f"curves_{name}").groups == shipped.groups  # is like the shipped one, wherever it is read


@pytest.mark.parametrize(
    ("name", "cells"),
    [("mnist_grid", 144), ("fashion_mnist_grid", 96), ("cifar10_grid", 96), ("cifar10_clipping", 192)],
)
def test_on_the_published_partitions_every_cell_has_one_run(name: str, cells: int) -> None:
    """At the rates of the authors' runs, on the maps that the other studies pin."""
    found = study.read(ROOT / "docs" / "results" / f"{name}.toml")
    table, taken = match.table(found), []
    for s in found.settings:
        (row,) = match.at_value(match.alike(found, table, s, found.swept), s, found.swept)
        taken.append(tuple(row.values()))
        assert s.lr in (0.003, 0.01, 0.03, 0.1, 0.3)
    assert len(taken) == len(set(taken)) == cells
    pinned = {s.partition for s in study.read(ROOT / "docs" / "results" / f"{found.settings[0].dataset}.toml").settings}
    assert {s.partition for s in found.settings} == pinned


# The page.


PAGE = (ROOT / "docs" / "studies.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@EVERY
def test_the_page_counts_right(name: str) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    cells_ = [cell.strip() for cell in line.split("|")]
    assert int(cells_[3].replace(",", "")) == len(read(name).settings)
    assert float(cells_[4]) == pytest.approx(counted(name) / 1e6, rel=0.05)


def test_the_page_has_every_key() -> None:
    tables = [tomllib.loads(text) for text in EXAMPLES]
    assert {key for table in tables for key in table} == set(study.KEYS)
    (shown,) = [table["report"] for table in tables if "report" in table]
    assert shown == Report().model_dump(exclude_none=True)  # the defaults, as it says
    assert [set(table["tune"]) for table in tables if "tune" in table] == [set(Tune.model_fields)]
    assert all(f"| `{method}` |" in PAGE for method in METHODS)


def test_links_of_the_page_lead_somewhere() -> None:
    assert [to for to in re.findall(r"\]\(([^)]+)\)", PAGE) if not (ROOT / "docs" / to).exists()] == []


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_of_the_page_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    found = study.read(path)
    said = re.match(r"# ([\d,]+) runs", text)
    assert said
    assert len(found.settings) == int(said[1].replace(",", ""))


# Training.


def trained(name: str, store: Store, scale: float) -> Study:
    """A study searched at a scale, all its winners trained."""
    found = study.read(name, scale)
    done = tune(found, store.root, device="cpu", quiet=True)
    assert all(choice.best and not choice.missing for choice in done)
    assert all(store.complete(s.run_id) for s in wanted(done))
    return found


def test_quadratics_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    nine, three = (study.read(name, 0.01) for name in ("quadratics", "quadratics_three"))
    run(nine.settings, store.root, device="cpu", quiet=True)
    assert all(store.complete(s.run_id) for s in three.settings)  # nothing is left to train
    assert report.report([three], store, tmp_path / "page").stat().st_size > 10_000


@pytest.mark.long
def test_mnist_runs_at_a_small_scale(data: Path, tmp_path: Path) -> None:
    write_idx(data / "mnist", 30_000, 100)
    store = Store(tmp_path / "runs")
    found = trained("mnist", store, 0.001)
    assert {s.rounds for s in found.settings} == {1}
    assert len(store.ids()) == 3 * 2 * 3 * 2 * 4
    curves = study.read("curves_mnist", 0.001)
    assert wanted(choices(curves, store)) == wanted(choices(found, store))
    assert all(store.complete(s.run_id) for s in wanted(choices(curves, store)))


@pytest.mark.long
@EVERY
def test_every_study_has_its_page(name: str, tmp_path: Path, real_data: Callable[[str], datasets.Dataset]) -> None:
    """From made-up runs: what [report] asks for can be laid out and drawn."""
    found, store = study.read(name, 0.01), Store(tmp_path / "runs")
    if any(s.epochs for s in found.settings):  # how many steps those are depends on the samples
        for dataset in {s.dataset for s in found.settings}:
            real_data(dataset)
    else:
        handmade.without_data(found.settings)
    for s in found.settings:
        rounds = range(0, s.rounds + 1, s.eval_every)
        metrics = (*MEASURED, *(EXACT if s.dataset.startswith("quadratic") else ()))
        history = {name: [(r, np.array([50 + r + s.lr])) for r in rounds] for name in metrics}
        store.finish([s], Snapshot(s.rounds, State({"x": torch.zeros(1, 1)}), {}, torch.tensor([-1]), History(history)))
    page = report.report([found], store, tmp_path / "page")
    made = {path.name for path in page.parent.iterdir()}
    assert {f"{name}.csv", "index.html"} <= made
    assert (f"{name}-layout.csv" in made) == bool(found.report.down)
    assert (f"{name}-paper.csv" in made) == bool(found.report.paper)


@pytest.mark.long
def test_real_mnist_runs_at_a_small_scale(real_data: Callable[[str], datasets.Dataset], tmp_path: Path) -> None:
    real_data("mnist")
    trained("mnist", Store(tmp_path / "runs"), 0.02)
