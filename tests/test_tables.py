"""Tables of one's own: both readers give the same arrays, scikit-learn's scaling, and one line for each mistake."""

import csv
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from typer.testing import CliRunner

from baton import caches, datasets
from baton.cli import app
from baton.clients import batches, build, visit
from baton.datasets.base import squared_error
from baton.datasets.table import arrow, load, make
from baton.datasets.table.files import File
from baton.datasets.table.split import held_back
from baton.errors import BadInput
from baton.lanes import Lanes
from baton.names import canonical
from baton.setting import Setting
from contracts.examples import finish, series

pytest_plugins = ["fixtures_data"]
pytestmark = pytest.mark.usefixtures("data")

ARROW = pytest.mark.skipif(not arrow.here(), reason="pyarrow is not installed")
READERS = pytest.mark.parametrize("fast", [pytest.param(True, marks=ARROW), False], ids=["pyarrow", "NumPy"])


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Patients of three hospitals, the last one small."""
    draw = np.random.default_rng(seed)
    found = []
    for i in range(count):
        age, pressure = round(draw.normal(60, 10), 2), round(draw.normal(130, 20), 1)
        site = "north" if i % 10 < 6 else "south" if i % 10 < 9 else "east"
        outcome = "sick" if age + pressure / 2 + draw.normal(0, 8) > 125 else "well"
        kind = ("a", "b", "c")[draw.integers(3)]
        found.append({"site": site, "age": age, "bp": pressure, "kind": kind, "outcome": outcome, "cost": age * 3.5})
    return found


def write(path: Path, table: list[dict[str, Any]], **dialect: Any) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, table[0], **dialect)
        writer.writeheader()
        writer.writerows(table)
    return path


def decode(path: Path, fast: bool | None = None, **options: Any) -> make.Arrays:
    return load.decode([File(path, "")], make.Options(**{"label": "outcome", "site": "site"} | options), "utf-8", fast)


def equal(a: make.Arrays, b: make.Arrays) -> bool:
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "h.csv", rows(200))


# The arrays


@READERS
def test_scaling_and_one_hot_are_scikit_learns(table: Path, fast: bool) -> None:
    found = decode(table, fast, drop=("cost",))
    data = rows(200)
    site = np.array([row["site"] for row in data])
    names = sorted(set(site))
    y = np.array([row["outcome"] == "well" for row in data]).astype(np.int64)
    test = held_back(y, np.array([names.index(s) for s in site]), tuple(names), 0.2, 0)
    numbers = np.array([[row["age"], row["bp"]] for row in data])
    kinds = np.array([[row["kind"]] for row in data])
    scaled = StandardScaler().fit(numbers[~test]).transform(numbers)
    hot = OneHotEncoder(sparse_output=False).fit(kinds[~test]).transform(kinds)
    right = np.concatenate([scaled, hot], 1)
    np.testing.assert_allclose(found.x, right[~test], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.test_x, right[test], rtol=1e-6, atol=1e-6)
    assert np.array_equal(found.y, y[~test])
    assert np.array_equal(found.test_y, y[test])
    told = make.unpacked(found.told)
    assert told.names == ("east", "north", "south")
    assert told.features == ("age", "bp", "kind=a", "kind=b", "kind=c")
    assert told.classes == ("sick", "well")
    assert [told.names[i] for i in found.owner] == site[~test].tolist()
    assert [told.names[i] for i in found.test_owner] == site[test].tolist()


def test_each_site_on_its_own_scale_or_none(table: Path) -> None:
    data = rows(200)
    own = decode(table, drop=("cost", "kind"), scale="site")
    for i in range(3):
        part = own.x[own.owner == i].astype(np.float64)
        np.testing.assert_allclose(part.mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(part.std(0), 1, atol=1e-6)
    raw = decode(table, drop=("cost", "kind"), scale="none")
    held = {tuple(row) for row in np.concatenate([raw.x, raw.test_x]).tolist()}
    assert held == {(float(np.float32(r["age"])), float(np.float32(r["bp"]))) for r in data}


def test_filling_takes_the_training_median_and_marks_it(tmp_path: Path) -> None:
    data = rows(200)
    for i in range(0, 200, 7):
        data[i]["age"] = "" if i % 2 else "NA"
    for i in range(0, 200, 9):
        data[i]["kind"] = ""
    path = write(tmp_path / "h.csv", data)
    filled = decode(path, missing="fill", scale="none", drop=("cost",))
    told = make.unpacked(filled.told)
    assert told.features == ("age", "age missing", "bp", "kind=(missing)", "kind=a", "kind=b", "kind=c")
    gone = filled.x[:, 1] == 1
    median = np.median(filled.x[~gone, 0].astype(np.float64))
    np.testing.assert_allclose(filled.x[gone, 0], median, rtol=1e-6)
    assert len(filled.y) + len(filled.test_y) == 200
    dropped = decode(path, drop=("cost",))
    lost = len({*range(0, 200, 7), *range(0, 200, 9)})
    assert len(dropped.y) + len(dropped.test_y) == 200 - lost
    assert any(note.startswith(f"{lost} of 200 rows dropped") for note in make.unpacked(dropped.told).notes)


@given(st.integers(8, 60), st.integers(1, 4), st.floats(0.1, 0.6), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_split_keeps_shares_as_scikit_learn_does(count: int, classes: int, share: float, seed: int) -> None:
    draw = np.random.default_rng(count)
    y = draw.integers(0, classes, count)
    test = held_back(y, np.zeros(count, np.int64), ("a",), share, seed)
    sizes, held = np.bincount(y, minlength=classes), np.bincount(y[test], minlength=classes)
    assert np.all((sizes == 0) | (held < sizes))  # each class stays in training
    assert 1 <= test.sum() < count
    if sizes[sizes > 0].min() > 5 and len(sizes[sizes > 0]) > 1:
        _, theirs = train_test_split(np.arange(count), test_size=int(test.sum()), stratify=y, random_state=0)
        assert np.abs(np.bincount(y[theirs], minlength=classes) - held).max() <= 1


def test_a_sites_rows_do_not_depend_on_other_sites() -> None:
    y, site = np.arange(60) % 2, np.repeat([0, 1, 2], 20)
    three = held_back(y, site, ("a", "b", "c"), 0.3, 4)
    one = held_back(y[20:40], np.zeros(20, np.int64), ("b",), 0.3, 4)
    assert np.array_equal(three[20:40], one)
    assert not np.array_equal(three, held_back(y, site, ("a", "b", "c"), 0.3, 5))


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.integers(-(10**12), 10**12).map(str),
    st.sampled_from(["", "NA", "?", " 3.5 ", "1e-3", "+4", ".5", "5."]),
)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=6)


@ARROW
@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_reads_the_same_both_ways(tmp_path: Path, data: st.DataObject) -> None:
    """What was written comes back, and pyarrow and NumPy agree to the bit, or in the line that refuses it."""
    count = data.draw(st.integers(4, 30))
    body = [
        {
            "n": data.draw(CELLS),
            "w": "w" + data.draw(WORDS),
            "quoted": 'x"y,\n' + str(i % 2),
            "y": "ab"[i % 2],
            "plain": repr(float(i)),
        }
        for i in range(count)
    ]
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    path = write(tmp_path / "t.csv", body, lineterminator=end)
    options = {"label": "y", "site": "", "missing": "fill", "scale": "none", "categorical": ("w",)}
    made = []
    for fast in (True, False):
        try:
            made.append(decode(path, fast, **options))
        except BadInput as error:
            made.append(str(error))
    if isinstance(made[0], str) or isinstance(made[1], str):
        assert made[0] == made[1]
        return
    assert equal(made[0], made[1])
    names = make.unpacked(made[0].told).features
    held = np.concatenate([made[0].x, made[0].test_x])
    assert sorted(held[:, names.index("plain")].tolist()) == [float(i) for i in range(count)]


@READERS
def test_long_tables_with_late_surprises(tmp_path: Path, fast: bool) -> None:
    """Blocks by NumPy's parser, then one with quotes, missing cells, Windows line ends; then missing ones all over."""
    lines = ["site,a,b,y"] + [f"s{i % 3},{i / 7!r},{i}.5,{i % 2}" for i in range(20_000)]
    lines[9_000] = '"s1",NA,"7.25",1'
    lines[15_000] = " s2 , 3 , 4 ,0\r"
    lines += [("s1,NA,NA,1", "NA,1,,0", ",?,2,1", "s2,3,4,NA", "s1,1,NA,0\r")[i % 5] for i in range(30_000)]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(lines))
    found = decode(path, fast, label="y", scale="none", missing="fill")
    reference = decode(path, not fast, label="y", scale="none", missing="fill")
    assert equal(found, reference)
    held = np.concatenate([found.x, found.test_x]).astype(np.float64)
    assert held.shape == (32_000, 4)  # those without site or label are dropped
    right = sum(i + 0.5 for i in range(20_000)) - 8_999.5 + 7.25 - 14_999.5 + 4
    here = held[:, 3] == 0
    assert here.sum() == 20_000
    assert held[here, 2].sum() == pytest.approx(right, rel=1e-7)


@ARROW
def test_forms_of_one_table_give_one_content(table: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    data = rows(200)
    text = table.read_text()
    write(tmp_path / "h.tsv", data, delimiter="\t")
    (tmp_path / "h2.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    write(tmp_path / "semi.csv", data, delimiter=";")
    parquet.write_table(pa.Table.from_pylist(data), tmp_path / "h.parquet")
    (tmp_path / "index.csv").write_text(
        "".join(f"{'' if i == 0 else i},{line}\n" for i, line in enumerate(text.splitlines()))
    )
    names = ("h.csv", "h.tsv", "h2.csv.gz", "bom.csv", "semi.csv", "h.parquet", "index.csv")
    made = {name: load.load(0, path=str(tmp_path / name), label="outcome", site="site") for name in names}
    assert len({each.content for each in made.values()}) == 1
    assert "row numbers" in " ".join(made["index.csv"].notes)


def test_a_folder_or_a_pattern_is_a_site_a_file(tmp_path: Path) -> None:
    data = rows(120)
    folder = tmp_path / "sites"
    folder.mkdir()
    for site in ("north", "south", "east"):
        part = [{k: v for k, v in row.items() if k != "site"} for row in data if row["site"] == site]
        write(folder / f"{site}.csv", part)
    whole = load.load(0, path=str(folder), label="outcome")
    pattern = load.load(0, path=f"{folder}/*.csv", label="outcome")
    column = load.load(0, path=str(write(tmp_path / "one.csv", data)), label="outcome", site="site")
    assert whole.names == ("east", "north", "south")
    assert whole.content == pattern.content
    for i in range(3):  # the same rows at the same sites, in whatever order of sites
        assert whole.owner is not None
        assert column.owner is not None
        assert torch.equal(whole.x[whole.owner == i], column.x[column.owner == i])
    spec = f"csv:{folder},label=outcome"
    assert datasets.sites(spec) == 3
    setting = Setting(dataset=spec)
    assert (setting.clients, setting.partition) == (3, "natural")


def test_latin_1(tmp_path: Path) -> None:
    body = "name,x,y\n" + "".join(f"{'é' if i % 2 else 'ü'},{i},{i % 2}\n" for i in range(20))
    path = tmp_path / "l.csv"
    path.write_bytes(body.encode("latin-1"))
    with pytest.raises(BadInput, match=r"is not utf-8 .*encoding=latin-1 may be right"):
        load.load(0, path=str(path), label="y")
    assert load.load(0, path=str(path), label="y", encoding="latin-1").x.shape[1] == 3


def test_the_second_start_reads_nothing(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load.load(0, path=str(table), label="outcome", site="site")
    monkeypatch.setattr(load, "decode", None)
    second = load.load(0, path=str(table), label="outcome", site="site")
    assert first.content == second.content
    assert (first.notes, first.names) == (second.notes, second.names)
    assert torch.equal(first.x, second.x)
    assert len(list((caches.cache() / "decoded").iterdir())) == 1


def test_other_options_or_cells_are_another_content(table: Path) -> None:
    def content(**options: Any) -> str:
        return load.load(0, path=str(table), **{"label": "outcome", "site": "site"} | options).content

    base = content()
    others = [
        content(split_seed=1),
        content(scale="site"),
        content(drop="cost"),
        content(weight="cost"),
        content(site=""),
        content(test=0.3),
        content(label="kind"),
    ]
    assert len({base, *others}) == 8
    table.write_text(table.read_text().replace("north", "polar"))  # a site's name counts
    assert content() != base


# Labels, weights


def test_labels_say_the_task(table: Path) -> None:
    number = load.load(0, path=str(table), label="cost", site="site")
    assert number.classes == 0
    assert number.loss is squared_error
    assert float(number.y.mean()) == pytest.approx(0, abs=1e-5)
    assert float(number.y.std(correction=0)) == pytest.approx(1, abs=1e-5)
    assert "regression" in number.notes[0]
    raw = load.load(0, path=str(table), label="cost", site="site", scale="none")
    assert float(raw.y.mean()) > 100
    assert load.load(0, path=str(table), label="kind", site="site").classes == 3


def test_a_regression_is_trained_to_the_least_squares(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    x = draw.normal(size=(300, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.7 + draw.normal(0, 0.3, 300)
    body = zip(x.tolist(), y.tolist(), [i % 5 == 0 for i in range(300)], strict=True)
    names = ("a", "b", "c", "y", "test")
    path = write(tmp_path / "r.csv", [dict(zip(names, (*row, t, held), strict=True)) for row, t, held in body])
    spec = f"csv:{path},label=y,test_column=test"
    setting = Setting(dataset=spec, clients=1, rounds=60, local_steps=10, batch_size=240, lr=0.1, dtype="float64")
    program, at = finish([setting])
    assert program.legs.way == "PyTorch"
    data = datasets.load(setting.dataset, 1)
    design = torch.cat([data.x, torch.ones(len(data.x), 1)], 1).double()
    best = torch.linalg.lstsq(design, data.y.double().unsqueeze(1)).solution.squeeze(1)
    found = torch.cat([at.state.model["1.weight"].flatten(), at.state.model["1.bias"].flatten()])
    torch.testing.assert_close(found, best, rtol=1e-4, atol=1e-5)
    assert "test_accuracy" not in at.history
    assert series(at, "test_loss")[60] < series(at, "test_loss")[0] / 5


def test_only_some_models_and_partitions_tell_numbers(table: Path) -> None:
    spec = f"csv:{table},label=cost,site=site"
    assert series(finish([Setting(dataset=spec, model="mlp", rounds=2, eval_every=2)])[1], "test_loss")
    with pytest.raises(BadInput, match="a number is to be told; logistic or mlp"):
        finish([Setting(dataset=spec, model="cnn", rounds=1)])
    with pytest.raises(BadInput, match="splits labelled samples"):
        finish([Setting(dataset=spec, partition="dirichlet:alpha=1", rounds=1)])


def test_weights_count_as_copies_would(tmp_path: Path) -> None:
    """A full-batch step with weight 3 is the step in which the row stands three times, in C and in PyTorch."""
    data = rows(60)
    for i, row in enumerate(data):
        row |= {"w": (0.5, 1.5)[i % 2], "test": "train" if i % 6 else "test"}
    weighted = write(tmp_path / "w.csv", data)
    often = [row for row in data for _ in range(1 if row["w"] == 0.5 or row["test"] == "test" else 3)]
    copies = write(tmp_path / "c.csv", often)
    for dtype in ("float32", "float64"):
        ends = []
        for what in (f"csv:{weighted},weight=w,drop=site+cost+kind", f"csv:{copies},drop=w+site+cost+kind"):
            setting = Setting(
                dataset=f"{what},label=outcome,test_column=test,scale=none",
                dtype=dtype,
                lr=1e-4,
                clients=1,
                rounds=3,
                local_steps=1,
                batch_size=1000,
            )
            ends.append(finish([setting])[1].state.model["1.weight"])
        torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=1e-6)
    weight = load.load(0, path=str(weighted), label="outcome", weight="w", test_column="test").weight
    assert weight is not None
    assert set(weight.tolist()) == {1.0, 3.0}  # the least is 1, so that no batch sums to less


def test_weights_reach_the_batches(table: Path) -> None:
    setting = Setting(dataset=f"csv:{table},label=outcome,site=site,weight=cost", batch_size=7)
    clients, partition = build([setting], torch.float32, torch.device("cpu"))
    assert clients.weight is not None
    seed, rate = torch.tensor([1]), torch.tensor([0.1])
    lanes = Lanes(seed, rate, rate, rate, rate, partition)
    drawn = batches(clients, lanes, torch.tensor([0]), visit(seed, 0, torch.tensor([0])), setting)
    held = drawn.weight > 0
    assert torch.equal(drawn.weight[held], clients.weight[drawn.places[held]])
    assert 0 < int(held.sum()) < held.numel()  # a short batch stays short


# Bad input, one line each

BODY = "site,age,bp,outcome\n" + "".join(f"{'ab'[i % 2]},{i},{i * 2},{'yn'[i // 2 % 2]}\n" for i in range(20))
WRONG = {
    "label": (BODY, "label=outcom", "no such column; did you mean 'outcome'"),
    "site": (BODY, "label=outcome,site=town", "site=town"),
    "drop": (BODY, "label=outcome,drop=agee", "did you mean 'age'"),
    "none": (BODY, "site=site", "label=COLUMN"),
    "option": (BODY, "label=outcome,scal=site", "did you mean 'scale'"),
    "scale": (BODY, "label=outcome,scale=wild", "pooled, site or none"),
    "missing": (BODY, "label=outcome,missing=guess", "drop or fill"),
    "test": (BODY, "label=outcome,test=1.5", "test=1.5"),
    "seed": (BODY, "label=outcome,split_seed=-1", "split_seed=-1"),
    "task": (BODY, "label=outcome,task=guess", "classify or regress"),
    "words to tell": (BODY, "label=outcome,task=regress", "holds words"),
    "codec": (BODY, "label=outcome,encoding=klingon", "encoding=klingon"),
    "twice": (BODY, "label=outcome,site=outcome", "label column too"),
    "text": (BODY.replace("\na,4,", "\na,four,"), "label=outcome", "row 6, column 'age': 'four' is text"),
    "mixed": (BODY.replace("\na,0,", "\na,old,").replace("\nb,1,", "\nb,new,"), "label=outcome", "column 'age'"),
    "infinite": (BODY.replace("\na,4,", "\na,inf,"), "label=outcome", "row 6, column 'age': is infinite"),
    "once": (BODY + "a,1,1,maybe\n", "label=outcome", "'maybe' occurs once"),
    "one class": (BODY.replace(",n\n", ",y\n"), "label=outcome", "two classes or more"),
    "ragged": (BODY + "a,1\n", "label=outcome", "row 22 has 2 fields; the header has 4"),
    "header": ("a,a,y\n1,2,3\n", "label=y", "header has 'a' twice"),
    "no header": ("1,2,1\n1,2,3\n", "label=y", "names the columns"),
    "unnamed": ("a,,y\n1,2,3\n", "label=y", "column 2 of its header has no name"),
    "empty": ("", "label=y", "is empty"),
    "no rows": ("a,y\n", "label=y", "has a header and no rows"),
    "all missing": ("a,y\n" + ",1\n,0\n" * 4, "label=y", "column 'a' has no values; drop=a"),
    "every row": ("a,b,y\n" + "1,,1\n,2,0\n" * 4, "label=y", "every row has a missing value"),
    "no features": ("y\n" + "1\n0\n" * 4, "label=y", "no columns are left"),
    "ids": ("id,y\n" + "".join(f"p{i},{i % 2}\n" for i in range(200)), "label=y", "drop=id"),
    "test column": (BODY, "label=outcome,test_column=site", "test or train"),
    "untrained site": (
        "site,x,t,y\n" + "a,1,0,0\na,2,1,1\na,2,0,1\na,2,1,0\nb,1,1,1\n",
        "label=y,site=site,test_column=t",
        "site 'b' has no training rows",
    ),
    "weights": (BODY.replace(",age", ",w").replace("\na,4,", "\na,-4,"), "label=outcome,weight=w", "weight=w"),
    "quotes": (BODY + 'a,1,1,"open\n', "label=outcome", "is no CSV"),
}


@READERS
@pytest.mark.parametrize("kind", WRONG)
def test_mistakes_end_in_one_line(tmp_path: Path, kind: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    body, options, says = WRONG[kind]
    path = tmp_path / "t.csv"
    path.write_text(body)
    monkeypatch.setattr("baton.datasets.table.arrow.here", lambda: fast)
    with pytest.raises(BadInput) as error:
        datasets.load(datasets.spelled(f"csv:{path},{options}"), 0)
    line = str(error.value)
    assert says in line, line
    assert line.startswith("dataset: ")
    assert "\n" not in line


def test_what_is_no_file(tmp_path: Path, table: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(table.read_bytes())[:-20])
    (tmp_path / "odd.parquet").write_text("PAR1 not")
    for name, says in {
        "pipe.csv": "it is a pipe",
        "empty": "folder without tables",
        "hh.csv": "did you mean 'h.csv'",
        "*.xls": "no file matches",
        "cut.csv.gz": "cannot be read",
        "odd.parquet": "no readable Parquet",
    }.items():
        with pytest.raises(BadInput, match=says):
            load.load(0, path=str(tmp_path / name), label="outcome")


def test_files_of_a_folder_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,0\n2,1\n1,1\n2,0\n")
    (tmp_path / "b.csv").write_text("x,z,y\n1,2,0\n2,3,1\n1,1,1\n2,0,0\n")
    with pytest.raises(BadInput, match=r"b\.csv: has a column 'z'"):
        load.load(0, path=str(tmp_path), label="y")
    with pytest.raises(BadInput, match="each file is a site already"):
        load.load(0, path=str(tmp_path), label="y", site="x")


def test_a_file_too_large_for_the_memory_is_refused_before_it_is_read(table: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("baton.limits.memory", lambda: 10_000)
    with pytest.raises(BadInput, match=r"bytes, about .* values; that takes"):
        load.load(0, path=str(table), label="outcome")


# Specs and the command line


def test_specs_have_one_spelling() -> None:
    def one(spec: str) -> str:
        return canonical("dataset", spec, datasets.LOADERS)

    assert one("csv:./a//b.csv,site=s,label=y,test=0.20") == "csv:a/b.csv,label=y,site=s"
    assert one("csv:name=1/x,y.csv,drop=d+e,label=a") == "csv:name=1/x,y.csv,label=a,drop=d+e"
    assert one("csv:a,b.csv,label=blood pressure, systolic") == "csv:a,b.csv,label=blood pressure, systolic"
    assert one("npz:x=1.npz,test=1/3") == "npz:x=1.npz,test=1/3"


def test_the_command_line_says_what_it_took(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    monkeypatch.setattr("baton.notice._said", set())

    def baton(*words: str) -> Result:
        return CliRunner().invoke(app, list(words))

    spec = "csv:h.csv,label=outcome,site=site,drop=cost"
    done = baton("run", "-d", spec, "-R", "4", "-K", "2", "--runs", str(tmp_path / "r"), "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("label 'outcome': 2 classes (sick, well)") == 1
    shown = baton("data", "check", spec).stdout
    assert "standardised over all sites' training rows" in " ".join(shown.split())
    assert [line.split()[0] for line in shown.splitlines()[-4:]] == ["east", "north", "south", "all"]
    assert "north" in baton("partition", "-d", spec).stdout
    assert "classes a client" not in baton("partition", "-d", "csv:h.csv,label=cost,site=site").stdout
    for wrong in ("h.csv", "csv:h.csv"):
        line = str(baton("run", "-d", wrong).exception)
        assert "label=COLUMN" in line
        assert "\n" not in line
