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
}


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
