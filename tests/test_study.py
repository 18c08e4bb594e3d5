"""Studies: base, axes, groups; every mistake in the file is one line."""

import sys
from pathlib import Path

import pytest

from baton import study
from baton.errors import BadInput
from baton.study import fields


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
    assert len({s.key for s in found.settings}) == len(found.settings)


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
    "[report]\nshade = 'box'": "[report] shade: 'box'; std or minmax is right",
    "[report]\nalso = [3]": "[report] also: 3 is not a str",
    "[report]\nlast = 0": "[report] last: 0; at least 1 is right",
    "[tune]\nover = ['']": "[tune] over: '' cannot be searched; 'lr' or 'clip' is right",
    "[axes]\nalgorithm.server_lr = [0.5]": "algorithm: sequential has no parameter 'server_lr'; ",
    "[base]\nalgorithm = 'parallel'\n'algorithm.server' = 2": "algorithm: parallel has no parameter 'server'; did you",
    "[axes]\nalgorithm.server_lr = 0.5": "axes.algorithm.server_lr: 0.5 is not a list of values; [0.5] is right",
    "[axes]\nmodl.hidden = [1]": "axes.modl: no such setting; did you mean 'model'?",
    "[axes]\n'lr.x' = [1]": "axes.lr.x: no such setting",
    "[base]\nalgorithm.a.b = 1": "algorithm.a: {'b': 1} is not a number or a word",
    "[base]\nalgorithm = 'parallel'\n'algorithm.weighting' = 'size,server_lr=2'": "is not a number or a word",
    "[base]\nalgorithm.a = 1\n'algorithm.a' = 2": "algorithm.a: it is given as algorithm.a and as 'algorithm.a'",
    "[base]\npartition = 'file'\n'partition.path' = 'none.csv'\n'partition.seed' = 2": "file has no parameter 'seed'",
    "[tune]\nover = ['algorithm.beta']": "[tune] over: no algorithm of this study has a parameter 'beta'",
    "[base]\nalgorithm='parallel'\n[report]\nlines = 'algorithm.server'": "did you mean 'server_lr'?",
    "[report]\nover = 'lr.x'": "[report] over: no such setting 'lr.x'",
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


def test_an_option_is_an_axis_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        """
        [base]
        partition = "exdir:C=1"
        "partition.alpha" = 10
        [[cases]]
        algorithm = "parallel:weighting=size,server_lr=3"
        axes.algorithm.server_lr = [0.5, 1]
        [[cases]]
        algorithm = "sequential"
        [groups.a]
        [groups.b]
        partition.C = 2
        [groups.c]
        model = "mlp"
        axes."model.hidden" = [8, 16]
        """
    )
    groups = study.read(path).groups
    assert [s.algorithm for s in groups["a"]] == [
        "parallel:weighting=size,server_lr=0.5",
        "parallel:weighting=size",  # server_lr = 1 is its default
        "sequential",
    ]
    assert {s.partition for s in groups["a"]} == {"exdir:C=1,alpha=10"}
    assert {s.partition for s in groups["b"]} == {"exdir:C=2,alpha=10"}
    assert [s.model for s in groups["c"]] == ["mlp:hidden=8", "mlp:hidden=16"] * 3
    assert [fields.value(s, "algorithm.server_lr") for s in groups["a"]] == [0.5, 1.0, None]
    assert fields.value(groups["b"][0], "partition.C") == 2


def test_options_of_specs_that_the_data_set_gives(tmp_path: Path) -> None:
    table = {"base": {"dataset": "quadratic"}, "axes": {"dataset": {"zeta": [5.0, 2.0]}, "dataset.delta": [0.5, 1 / 3]}}
    assert [s.dataset for s in study.parse("own", table).settings] == [
        "quadratic:zeta=5,delta=0.5",
        "quadratic:zeta=5,delta=1/3",
        "quadratic:zeta=2,delta=0.5",
        "quadratic:zeta=2,delta=1/3",
    ]
    (tmp_path / "who.csv").write_text("0\n")
    held = fields.made({"partition": "file", "partition.path": str(tmp_path / "who.csv")})
    assert held.partition.startswith(f"file:{tmp_path / 'who.csv'}#")
    assert fields.value(held, "partition", ["partition.path"]) == "file"


def test_a_study_like_another_adds_an_option(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("[axes]\nalgorithm = ['parallel']")
    (tmp_path / "two.toml").write_text("like = 'one.toml'\n[axes]\nalgorithm.server_lr = [0.5, 2]")
    assert [s.algorithm for s in study.read(tmp_path / "two.toml").settings] == [
        "parallel:server_lr=0.5",
        "parallel:server_lr=2",
    ]


def test_a_label_is_that_of_the_spec_without_its_swept_options() -> None:
    axes = {"algorithm.server_lr": [0.5, 2.0], "algorithm.weighting": ["size", "uniform"]}
    table = {"names": {"FedAvg": "parallel"}, "base": {"algorithm": "FedAvg"}, "axes": axes}
    labels = study.parse("own", table).labels
    assert labels["algorithm", "parallel:server_lr=2"] == "FedAvg, server_lr = 2.0, weighting = uniform"
    found = study.parse("own", {**table, "tune": {"over": ["algorithm.server_lr"]}})
    assert found.labels["algorithm", "parallel:weighting=size"] == "FedAvg, weighting = size"
    assert found.values("algorithm") == ["parallel:weighting=size", "parallel"]


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


# Too much of something


def refused(path: Path) -> str:
    with pytest.raises(BadInput) as error:
        study.read(path)
    line = str(error.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    assert len(line) < 2000
    return line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("x = " + "{a = " * 5000 + "1" + "}" * 5000, "nested too deep"),
        ("[report.metric" + ".a" * 1900 + "]\nb = 1", "nested too deep"),
        ("[base" + ".a" * 5000 + "]", "more than 2,000 dots"),
        ("x = 1" + "0" * 10_000, "not a TOML file"),
        ("x = \"\xff\"".encode("latin1"), "not a TOML file: 'utf-8' codec"),
        ("# " + "x" * (1 << 20), "has 1,048,578 bytes; no more than 1,048,576 is right"),
        ("[axes]\n" + "".join(f"{name} = {list(range(1, 1001))}\n" for name in ("lr", "clip", "seed")),
         "axes: their product is 1,000,000,000 runs; at most 1,000,000 is right"),
        ("[axes]\n" + "".join(f'"{f}" = {list(range(1, 1001))}\n' for f in (
            "clients", "participants", "local_steps", "rounds", "batch_size", "seed", "eval_every")),
         "axes: their product is more than 10^21 runs"),
        (f'[base]\ndataset = "{"x" * 100_000}"', "dataset"),
    ],
    ids=["arrays", "tables", "keys", "dots", "digits", "latin1", "size", "product", "more", "long"],
)  # fmt: skip
def test_too_much_is_one_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    assert says in refused(path)


def test_a_product_is_counted_over_cases_and_groups_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_: object) -> None:
        raise AssertionError("a setting was made")

    monkeypatch.setattr(sys.modules["baton.study.parse"], "made", never)  # the package has a function of that name
    path, seeds = tmp_path / "s.toml", list(range(1000))
    path.write_text(
        f"[axes]\nseed = {seeds}\nlr = [0.1, 0.2]\n[[cases]]\naxes.rounds = {seeds[1:]}\n[[cases]]\nclip = 1\n"
        f"[groups.a]\nlr = 0.5\n[groups.b]\n"
    )
    each = 1000 * 999 + 1000  # of a group that has one rate
    assert f"their product is {each + 2 * each:,} runs" in refused(path)


def test_a_long_axis_is_checked_in_its_own_time(tmp_path: Path) -> None:
    """Not in the square of it; values are told apart as before."""
    path = tmp_path / "s.toml"
    path.write_text(f"[axes]\nseed = {list(range(100_000))}\nlr = [0.1, 1, 1.0]\n")
    assert "axes.lr: 1.0 is given twice" in refused(path)
    path.write_text("[axes]\nseed = [[1], [1]]\n")
    assert "axes.seed: [1] is given twice" in refused(path)


def test_a_long_chain_of_studies(tmp_path: Path) -> None:
    for k in range(200):
        (tmp_path / f"s{k}.toml").write_text(f'like = "s{k + 1}"\n')
    (tmp_path / "s200.toml").write_text("[base]\nrounds = 3\n")
    assert "like: more than 100 studies" in refused(tmp_path / "s0.toml")
    assert study.read(tmp_path / "s150.toml").settings[0].rounds == 3
