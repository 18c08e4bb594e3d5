"""Studies: base, axes, groups; every mistake in the file is one line."""

from pathlib import Path

import pytest

from baton import study
from baton.errors import BadInput


def test_quadratics_is_the_paper_grid() -> None:
    found = study.read("quadratics")
    assert len(found.settings) == 9 * 2 * 2 * 10 * 5
    assert len(found.groups) == 9
    assert {s.rounds for s in found.settings} == {500}
    assert {s.seed for s in found.settings} == {1, 12, 123, 1234, 12345}


@pytest.mark.parametrize("name", study.shipped())
def test_shipped_studies_read(name: str) -> None:
    found = study.read(name)
    assert found.settings
    assert len({s.run_id for s in found.settings}) == len(found.settings)


def test_groups_override_base_and_axes(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        """
        [base]
        rounds = 3
        [axes]
        lr = [0.1, 0.2]
        seed = [1, 2, 3]
        [groups.a]
        rounds = 4
        [groups.b]
        lr = 0.5
        [groups.c.axes]
        seed = [7]
        """
    )
    groups = study.read(path).groups
    assert [len(groups[g]) for g in "abc"] == [6, 3, 2]
    assert {s.rounds for s in groups["a"]} == {4}
    assert {s.lr for s in groups["b"]} == {0.5}
    assert {s.seed for s in groups["c"]} == {7}


BAD = {
    "bases = 1": "study: no key 'bases'; did you mean 'base'?",
    "[base]\nrond = 3": "rond: no such setting; did you mean 'rounds'?",
    "[axes]\nlearning = [1]": "axes.learning: no such setting",
    "[axes]\nlr = 0.1": "axes.lr: 0.1 is not a list of values; [0.1] is right",
    "[axes]\nlr = []": "axes.lr: [] is not a list",
    "[groups]\na = 3": "groups.a: 3 is not a table",
    "[base]\nlr = -1.0": "lr: -1.0",
    "[report]\nmetrc = 'distance'": "[report]: no key 'metrc'; did you mean 'metric'?",
    "[report]\nbest = 'most'": "[report] best: 'most'; max or min is right",
    "[report]\nover = 'lrr'": "[report] over: no such setting 'lrr'; did you mean 'lr'?",
    "[report]\ncolumns = 'x'": "[report] columns: 'x' is not a int",
    "base = 3": "base: 3 is not a table",
    "x = = 1": "not a TOML file",
    "[axes]\nlr = [0.1, 0.2, 0.1]": "axes.lr: 0.1 is given twice; each value once is right",
    "[groups.a]\nlr = 0.1\n[groups.b]\nlr = 0.1": "is in groups.a already; each run once is right",
    "[groups.a.axes]\nlrr = [1]": "groups.a.axes.lrr: no such setting; did you mean 'lr'?",
    "[[cases]]\nrond = 3": "rond: no such setting; did you mean 'rounds'?",
    "[[cases]]\naxes = 3": "cases[0].axes: 3 is not a table",
    "cases = 3": "cases: 3 is not a list of tables; [[cases]] and lines of key = value are right",
    "[names]\na = 3": "names.a: 3 is not a name such as",
    "like = 3": "like: 3 is not the name of a study",
    "like = 'nothing'": "like: no other study 'nothing'",
    "tune = 3": "tune: 3 is not a table",
    "[report]\nsmooth = 1.5": "[report] smooth: 1.5; a part of the evaluations, from 0 to 1, is right",
    "[report]\nacross = ['modl']": "[report] across: no such setting 'modl'; did you mean 'model'?",
    "[report]\nlast = true": "[report] last: True is not a int",
}


def test_cases_are_layers_between_base_and_groups() -> None:
    table = {
        "base": {"rounds": 3, "clip": 1.0},
        "axes": {"lr": [0.5], "seed": [1, 2]},
        "cases": [{"algorithm": "parallel", "axes": {"lr": [0.1, 0.2]}}, {"algorithm": "sequential", "clip": 5.0}],
        "groups": {"a": {}, "b": {"clip": 7.0, "axes": {"seed": [9]}}},
    }
    groups = study.parse("own", table).groups
    assert [(s.algorithm, s.lr, s.clip, s.seed) for s in groups["a"]] == [
        ("parallel", 0.1, 1.0, 1),
        ("parallel", 0.1, 1.0, 2),
        ("parallel", 0.2, 1.0, 1),
        ("parallel", 0.2, 1.0, 2),
        ("sequential", 0.5, 5.0, 1),
        ("sequential", 0.5, 5.0, 2),
    ]
    assert {(s.clip, s.seed) for s in groups["b"]} == {(7.0, 9)}


def test_names_stand_for_specs_and_are_remembered() -> None:
    table = {"names": {"C = 1": "exdir:C=1,alpha=10"}, "axes": {"partition": ["C = 1", "iid"]}, "base": {"clients": 20}}
    found = study.parse("own", table)
    spec = found.settings[0].partition
    assert spec.startswith("exdir:")
    assert found.labels == {("partition", spec): "C = 1"}


def test_like_another_study(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("title = 'One'\n[base]\nrounds = 3\nlr = 0.1\n[axes]\nseed = [1, 2]")
    (tmp_path / "two.toml").write_text("like = 'one.toml'\n[base]\nlr = 0.2")
    found = study.read(tmp_path / "two.toml")
    assert (found.name, found.title) == ("two", "One")
    assert [(s.rounds, s.lr, s.seed) for s in found.settings] == [(3, 0.2, 1), (3, 0.2, 2)]
    (tmp_path / "one.toml").write_text("like = 'two.toml'")
    with pytest.raises(BadInput, match="like"):
        study.read(tmp_path / "two.toml")


def test_a_scaled_study_says_what_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        "[base]\nrounds = 1000\n[axes]\nseed = [1, 2, 3]\n[tune]\nseed = 3\nshort = 400\n[report]\nlast = 10"
    )
    small = study.read(path, 0.1)
    assert small.shrunk is not None
    assert {(s.rounds, s.seed, s.eval_every) for s in small.settings} == {(100, 3, 4)}
    assert (small.shrunk.rounds, small.shrunk.seeds, small.shrunk.last) == ({1000: 100}, (3, 1), (10, 1))
    assert small.tune is not None
    assert (small.tune.short, small.tune.last) == (40, 1)
    assert study.read(path, 0.5).shrunk is not None
    assert len({s.seed for s in study.read(path, 0.5).settings}) == 2
    assert {(s.rounds, s.eval_every) for s in study.read("quadratics", 0.01).settings} == {(5, 5)}
    for scale in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(BadInput, match=r"scale: .* a number above 0, up to 1, is right"):
            study.read(path, scale)


@pytest.mark.parametrize("text", BAD)
def test_mistakes_are_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        study.read(path)
    assert BAD[text] in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_file_names_the_shipped_ones() -> None:
    with pytest.raises(BadInput, match=r"shipped name: .*digits, .*quadratics"):
        study.read("nothing.toml")
